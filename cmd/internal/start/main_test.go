package start

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		os.Exit(serveMain())
	}
	os.Exit(m.Run())
}
