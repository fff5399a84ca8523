package netns

import (
	"bytes"
	"sync"
)

// Output holds the output of a command, which may be read while the command runs.
type Output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}
