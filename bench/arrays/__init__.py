"""SubZero's benchmarks (section VIII of the paper): `python -m bench.arrays`, or `make bench-arrays`."""
