package fabric

import (
	"context"
	"io/fs"
	"path"
	"time"
)

// deviceBudget limits the time to read one device from sysfs. A healthy device takes milliseconds;
// one whose firmware does not answer can take a minute per file (mlx5's command timeout).
const deviceBudget = 3 * time.Second

// reading is the value read from a device, and the first thing that could not be read.
type reading[T any] struct {
	value T
	bad   *Unknown
}

// each reads devices concurrently and returns the answers in the order of names. A
// device that exceeds its time limit becomes an Unknown and delays no other device. Its
// goroutine is abandoned, since nothing ends a read in the kernel.
func each[T any](ctx context.Context, fsys fs.FS, class string, names []string,
	read func(d *dir, name string) T) []reading[T] {
	type answer struct {
		i int
		reading[T]
	}
	answers := make(chan answer, len(names)) // buffered, so that late readers end too
	for i, name := range names {
		go func() {
			d := dir{fsys: fsys, name: path.Join(class, name)}
			v := read(&d, name)
			answers <- answer{i, reading[T]{v, d.bad}}
		}()
	}
	out := make([]reading[T], len(names))
	for i, name := range names {
		out[i].bad = &Unknown{What: path.Join(class, name), Why: "it did not answer within " + deviceBudget.String()}
	}
	ctx, cancel := context.WithTimeout(ctx, deviceBudget)
	defer cancel()
	for range names {
		select {
		case a := <-answers:
			out[a.i] = a.reading
		case <-ctx.Done():
			return out
		}
	}
	return out
}
