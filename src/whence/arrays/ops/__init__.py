"""Built-in operators, each with exact lineage: docs/arrays.md has the table."""

from whence.arrays.ops.chosen import Mask, Sort, Where
from whence.arrays.ops.convolve import Convolve
from whence.arrays.ops.elementwise import Elementwise, Threshold
from whence.arrays.ops.lanes import Cumulative, Reduce
from whence.arrays.ops.moving import Concatenate, Flip, Reshape, Roll, Rotate, Slice, Transpose
from whence.arrays.ops.products import Dot, Inverse, MatMul

__all__ = [
    "Concatenate",
    "Convolve",
    "Cumulative",
    "Dot",
    "Elementwise",
    "Flip",
    "Inverse",
    "Mask",
    "MatMul",
    "Reduce",
    "Reshape",
    "Roll",
    "Rotate",
    "Slice",
    "Sort",
    "Threshold",
    "Transpose",
    "Where",
]
