/* What PyFR calls of libxsmm, in the words of the 1.17 that Debian has (which names a function for each precision). */
#include <libxsmm.h>
#include <stdlib.h>


void* libxsmm_fsspmdm_create(int type, int m, int n, int k, int lda, int ldb, int ldc, const void* alpha, const void* beta,
                             const void* a, int non_temporal, void* tick) {
    (void)tick;
    if (type != 0) return NULL;
    return libxsmm_dfsspmdm_create(m, n, k, lda, ldb, ldc, *(const double*)alpha, *(const double*)beta, non_temporal, a);
}
void libxsmm_fsspmdm_execute(const void* kernel, const void* b, void* c) { libxsmm_dfsspmdm_execute(kernel, b, c); }
void libxsmm_fsspmdm_destroy(void* kernel) { libxsmm_dfsspmdm_destroy(kernel); }
