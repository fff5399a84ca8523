package fabric

import (
	"context"
	"io/fs"
	"path"
	"time"
)

// deviceBudget is what one device may take to tell what sysfs holds of it. A
// healthy one takes milliseconds; one whose firmware does not answer can take a
// minute for each file (mlx5's command timeout).
const deviceBudget = 3 * time.Second

// told is what a device told, and the first thing that it did not.
type told[T any] struct {
	value T
	bad   *Unknown
}

// each reads devices side by side, in the order of names: a device that does not
// answer within its budget is an Unknown, and holds up no other. Its reader is
// left behind, since nothing ends a read in the kernel.
func each[T any](ctx context.Context, fsys fs.FS, class string, names []string, read func(d *dir, name string) T) []told[T] {
	type answer struct {
		i int
		told[T]
	}
	answers := make(chan answer, len(names)) // buffered, so that late readers end too
	for i, name := range names {
		go func() {
			d := dir{fsys: fsys, name: path.Join(class, name)}
			v := read(&d, name)
			answers <- answer{i, told[T]{v, d.bad}}
		}()
	}
	out := make([]told[T], len(names))
	for i, name := range names {
		out[i].bad = &Unknown{What: path.Join(class, name), Why: "it did not answer within " + deviceBudget.String()}
	}
	ctx, cancel := context.WithTimeout(ctx, deviceBudget)
	defer cancel()
	for range names {
		select {
		case a := <-answers:
			out[a.i] = a.told
		case <-ctx.Done():
			return out
		}
	}
	return out
}
