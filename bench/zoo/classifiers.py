"""Classifiers of pictures, of torchvision and timm."""

from __future__ import annotations

from functools import partial
from typing import Any

import timm
import torchvision
from torch import nn

from bench.zoo.network import Form, Network, picture


def _torchvision(name: str, **options: Any) -> partial[nn.Module]:
    return partial(torchvision.models.get_model, name, weights=None, **options)


def _timm(name: str, **options: Any) -> partial[nn.Module]:
    return partial(timm.create_model, name, pretrained=False, **options)


NEW = partial(Form, dynamo=True)

CONVOLUTIONS = (
    Network("mobilenet_v2", _torchvision("mobilenet_v2"), picture(opened="batch"), Form(13)),
    Network("mobilenet_v3_small", _torchvision("mobilenet_v3_small"), picture(), NEW(18)),
    Network("mobilenet_v3_large", _torchvision("mobilenet_v3_large"), picture(opened="all"), Form(17)),
    Network("efficientnet_b0", _torchvision("efficientnet_b0"), picture(opened="batch"), NEW(20)),
    Network("resnet18", _torchvision("resnet18"), picture(opened="all"), Form(11)),
    Network("resnet50", _torchvision("resnet50"), picture(), NEW(18, external=True)),
    Network("densenet121", _torchvision("densenet121"), picture(opened="batch"), Form(12)),
    Network("inception_v3", _torchvision("inception_v3", init_weights=False), picture(), Form(14)),
    Network("googlenet", _torchvision("googlenet", init_weights=False), picture(opened="batch"), Form(15)),
    Network("shufflenet_v2", _torchvision("shufflenet_v2_x0_5"), picture(opened="batch"), Form(17)),
    Network("squeezenet", _torchvision("squeezenet1_1"), picture(opened="all"), Form(11)),
    Network("mnasnet", _torchvision("mnasnet0_5"), picture(), Form(16)),
    Network("regnet_y", _torchvision("regnet_y_400mf"), picture(opened="batch"), NEW(21)),
    Network("resnet10t", _timm("resnet10t"), picture(opened="batch"), Form(13, external=True)),
    Network("convnext_atto", _timm("convnext_atto"), picture(opened="batch"), NEW(23)),
    Network("ghostnet", _timm("ghostnet_050"), picture(), Form(17)),
    Network("repvgg_a0", _timm("repvgg_a0"), picture(opened="batch"), Form(18)),
    Network("mobilenet_v4", _timm("mobilenetv4_conv_small_035"), picture(opened="batch"), NEW(18)),
    Network("lcnet_050", _timm("lcnet_050"), picture(opened="all"), Form(19)),
    Network("rexnet_100", _timm("rexnet_100"), picture(), Form(17, half=True)),
    Network("hrnet_w18_small", _timm("hrnet_w18_small"), picture(64, opened="batch"), Form(17)),
    Network("fastvit_t8", _timm("fastvit_t8"), picture(128, opened="batch"), NEW(18)),
    Network("mobileone_s0", _timm("mobileone_s0"), picture(opened="batch"), NEW(22)),
)

ATTENTION = (
    Network("vit_tiny", _timm("vit_tiny_patch16_224", img_size=96), picture(opened="batch"), Form(17)),
    Network("deit_tiny", _timm("deit_tiny_distilled_patch16_224", img_size=96), picture(), NEW(23)),
    Network("swin_tiny", _timm("swin_tiny_patch4_window7_224", img_size=112), picture(112), Form(17)),
    Network("mobilevit_xxs", _timm("mobilevit_xxs"), picture(128, opened="batch"), NEW(18)),
    Network("mobilevitv2_050", _timm("mobilevitv2_050"), picture(128), Form(18)),
    Network("levit_128s", _timm("levit_128s", img_size=112), picture(112, opened="batch"), Form(17)),
    Network("pvt_v2_b0", _timm("pvt_v2_b0"), picture(opened="batch"), NEW(20)),
    Network("mixer_s32", _timm("mixer_s32_224", img_size=96), picture(opened="batch"), Form(14)),
    Network("resmlp_12", _timm("resmlp_12_224", img_size=96), picture(), NEW(18)),
    Network("poolformer_s12", _timm("poolformer_s12"), picture(opened="batch"), Form(17)),
    Network("efficientvit_b0", _timm("efficientvit_b0"), picture(), Form(16)),
    Network("edgenext_xx_small", _timm("edgenext_xx_small"), picture(opened="batch"), NEW(19)),
    Network("vit_tiny_half", _timm("vit_tiny_patch16_224", img_size=96), picture(opened="batch"), NEW(18, half=True)),
)
