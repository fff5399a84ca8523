package gpu

import (
	"os"
	"testing"

	"launch/internal/child"
)

func TestMain(m *testing.M) {
	if code, ok := child.Dispatch(child.Table{"gpu": Child, "cuda": CUDAChild}); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
