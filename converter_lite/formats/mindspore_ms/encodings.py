"""x"""
from dataclasses import dataclass
@dataclass
class Encoded:
    dims: tuple
    data: object
    compression: int
def store(q, quant, *, encode):
    import numpy as np
    return Encoded(q.shape, q.astype(np.int8), 0)
