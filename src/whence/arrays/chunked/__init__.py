"""Arrays in chunks: zarr arrays on disk, run on Spark a chunk a task, asked by the chunks that a question needs."""
