package fabric

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// gone is a file system with one file that never answers.
type gone struct {
	fs.FS
	end chan struct{}
}

func (g gone) Open(name string) (fs.File, error) {
	if name == "dead" {
		<-g.end
	}
	return g.FS.Open(name)
}

func TestBoundedAbandonsAFileThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gone{fstest.MapFS{"well": {Data: []byte("text")}, "dead": {}}, make(chan struct{})}
		defer close(g.end)
		b := Bounded(g)
		began := time.Now()
		if text, err := fs.ReadFile(b, "well"); string(text) != "text" || err != nil || time.Since(began) != 0 {
			t.Errorf("%q, %v after %v", text, err, time.Since(began))
		}
		for _, want := range []time.Duration{fileBudget, fileBudget2} {
			began = time.Now()
			if _, err := fs.Stat(b, "dead"); !errors.Is(err, errLate) || time.Since(began) != want {
				t.Errorf("%v after %v, want it after %v", err, time.Since(began), want)
			}
		}
		if _, err := fs.Stat(b, "none"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that is not there: %v", err)
		}
	})
}
