package ui

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// TestAReaderThatHasStoppedStopsNothing: lines that find no room are lost, and later ones are printed once the reader
// goes on.
func TestAReaderThatHasStoppedStopsNothing(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	u := New(io.Discard, w, Options{Env: func(string) string { return "" }})
	line := strings.Repeat("x", 1000)
	began := time.Now()
	for range 200 { // a pipe holds 64 KiB
		u.Note("%s", line)
	}
	if took := time.Since(began); took > 10*patience {
		t.Errorf("200 lines took %v", took)
	}
	held := make([]byte, 1<<20)
	n, _ := r.Read(held)
	if n < pipeBuf || n > 150*len(line) {
		t.Errorf("the pipe held %d bytes", n)
	}
	u.Note("the last one")
	w.Close()
	if rest, _ := io.ReadAll(r); !strings.Contains(string(rest), "the last one") {
		t.Errorf("after somebody reads again: %q", rest)
	}
}
