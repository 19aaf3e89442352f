// libfuse's low-level interface, of the one version that this code is written for.
#pragma once

#define FUSE_USE_VERSION 314

#include <fuse_lowlevel.h>
