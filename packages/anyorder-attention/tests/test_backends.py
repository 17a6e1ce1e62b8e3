"""Every backend against the definition of attention: outputs and gradients of every input and bias factor."""

from __future__ import annotations

import torch

from anyorder.attention import Chunked, Naive, Sdpa, Tiled
from anyorder.core import AttentionBackend
from anyorder.core.testing import AttentionBackendContract


class TestNaive(AttentionBackendContract):
    def make(self) -> AttentionBackend:
        return Naive()


class TestSdpa(AttentionBackendContract):
    def make(self) -> AttentionBackend:
        return Sdpa()


class TestNaiveFloat32(TestNaive):
    dtype = torch.float32
    tolerance = 1e-4


class TestSdpaFloat32(TestSdpa):
    dtype = torch.float32
    tolerance = 1e-4


class TestChunked(AttentionBackendContract):
    def make(self) -> AttentionBackend:
        return Chunked(block=16)


class TestTiled(AttentionBackendContract):
    def make(self) -> AttentionBackend:
        return Tiled(tile=16, smallest=0)


class TestTiledRecomputing(AttentionBackendContract):
    def make(self) -> AttentionBackend:
        return Tiled(tile=32, recompute=True, smallest=0)


class TestTiledFloat32(TestTiled):
    dtype = torch.float32
    tolerance = 1e-4
