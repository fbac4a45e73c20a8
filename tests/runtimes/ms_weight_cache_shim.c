/* The released desktop build of MindSpore Lite 2.0.0 looks up packed weights by the address of the original data, and
 * refuses weights that were dequantized into a new buffer. Device builds have no such cache. Preloading this replaces
 * the look-up by one that hands out a fresh buffer and says that it is not packed yet. */
#include <stddef.h>
#include <stdlib.h>

void *get_pack_data(void *self, const void *tensor, size_t size, _Bool *packed) __asm__(
    "_ZN9mindspore4lite17PackWeightManager11GetPackDataEPKvmPb");

void *get_pack_data(void *self, const void *tensor, size_t size, _Bool *packed) {
  void *buffer = NULL;
  (void)self;
  (void)tensor;
  *packed = 0;
  return posix_memalign(&buffer, 64, size) == 0 ? buffer : NULL;
}
