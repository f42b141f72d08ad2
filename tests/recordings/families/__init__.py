"""The instruction families that are recorded; a family is a module with cases() -> list of Case."""
import functools
import importlib

NAMES = ["wgmma", "mma", "matrix", "convert", "arithmetic", "integer", "special", "warp", "memory", "bulk", "tensor"]


@functools.lru_cache(None)
def cases(name):
    return importlib.import_module(f"families.{name}").cases()
