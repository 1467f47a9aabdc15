"""The compiled module, which pyproject.toml alone cannot describe."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension("stratalog_kernel.records", ["stratalog_kernel/records.pyx"], extra_compile_args=["-O3"]),
    ]
)
