package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"time"

	"launch/internal/launcher"
)

// The script is read for its sum: more than a program has is not, and a file
// system that does not answer is not waited for.
const (
	scriptMost = 4 << 20
	scriptWait = time.Second
)

// scriptOf is the content of the script in a few words that can be compared, "":
// there is none, or it could not be read.
func scriptOf(l launcher.Line) string {
	if l.Script <= 0 || l.Script >= len(l.Argv) {
		return ""
	}
	sum := make(chan string, 1)
	go func() { // left behind where the file system does not answer
		f, err := os.Open(l.Argv[l.Script])
		if err != nil {
			sum <- ""
			return
		}
		defer f.Close()
		h := sha256.New()
		n, err := io.Copy(h, io.LimitReader(f, scriptMost))
		if err != nil || n == scriptMost {
			sum <- ""
			return
		}
		sum <- fmt.Sprintf("%d bytes, sha256 %x", n, h.Sum(nil)[:6])
	}()
	select {
	case s := <-sum:
		return s
	case <-time.After(scriptWait):
		return ""
	}
}
