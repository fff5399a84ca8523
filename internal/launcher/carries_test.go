package launcher

import (
	"slices"
	"strings"
	"testing"
)

func TestWhatMpirunGivesToOtherHosts(t *testing.T) {
	env := []string{"NCCL_DEBUG=WARN", "UCX_TLS=tcp", "HOME=/root", "FI_PROVIDER=tcp"}
	for _, tc := range []struct{ mpi, line, want string }{
		{"openmpi4", "mpirun a.out", ""},
		{"openmpi4", "mpirun -x NCCL_DEBUG -x UCX_TLS=rc -x HOME a.out", "NCCL_DEBUG=WARN UCX_TLS=rc"},
		{"openmpi5", "mpirun -x NCCL_* a.out", "NCCL_DEBUG=WARN"},
		{"mpich", "mpiexec a.out", "NCCL_DEBUG=WARN UCX_TLS=tcp FI_PROVIDER=tcp"},
		{"mpich", "env -u UCX_TLS NCCL_DEBUG=INFO mpiexec a.out", "FI_PROVIDER=tcp NCCL_DEBUG=INFO"},
		{"mpich", "mpiexec -genv NCCL_DEBUG INFO a.out", "UCX_TLS=tcp FI_PROVIDER=tcp NCCL_DEBUG=INFO"},
		{"intel", "mpiexec -genvnone -genv UCX_TLS=rc a.out", "UCX_TLS=rc"},
		{"intel", "mpiexec -genvlist UCX_TLS,HOME a.out", "UCX_TLS=tcp"},
		{"", "mpirun a.out", ""},
	} {
		if got := strings.Join(parse(t, tc.line).Of(tc.mpi).Carries(slices.Clone(env)), " "); got != tc.want {
			t.Errorf("%s, %s: %q, want %q", tc.mpi, tc.line, got, tc.want)
		}
	}
}
