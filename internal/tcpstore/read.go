package tcpstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Bounds of one reading.
const (
	limit = 2 * time.Second // of everything, the dial included
	// No request is sent in the last fifth of the time: a connection that is closed while the server writes makes
	// it write a warning to the job's stderr.
	reserved   = 5
	maxBatch   = 200      // keys in one write
	maxAnswers = 64 << 10 // bytes of answers to one write, by the largest value so far: fits a socket buffer
	maxTotal   = 16 << 20 // bytes of values: the blobs of 1,400 ranks
)

// Dial returns a connection to a store.
type Dial func(ctx context.Context) (net.Conn, error)

// At returns the Dial of a TCP address, host:port.
func At(addr string) Dial {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
}

// Read returns what the store says. It takes 2 s at most, less where ctx ends before. An error of dial passes
// through; ErrSilent, ErrClosed and ErrGarbage say that something else is wrong. The board of an error is empty.
// Where the store answers at first and not to the end, Cut says so, and there is no error.
//
// It dials once for torch 2.10 and later, twice for 1.13 to 2.1, and again for 2.2 to 2.9: a server closes a
// connection that asks what it does not know. Those cannot list their keys; hints name what to ask for.
func Read(ctx context.Context, dial Dial, hints Hints) (Board, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	end, _ := ctx.Deadline()
	r := reader{
		last:    end.Add(-time.Until(end) / reserved),
		ctx:     ctx,
		dial:    dial,
		hints:   hints,
		board:   Board{Clients: -1, Ended: -1},
		rounds:  map[string]int{},
		masters: map[string]string{},
		hosts:   map[string]string{},
	}
	defer r.hangUp()
	if err := r.read(); err != nil {
		if cause := ctx.Err(); errors.Is(cause, context.Canceled) {
			err = cause
		}
		return Board{}, err
	}
	return r.finish(), nil
}

// reader is one reading of a store.
type reader struct {
	ctx    context.Context
	last   time.Time // after it no request is sent
	dial   Dial
	hints  Hints
	link   *link
	detach func() bool

	board   Board
	cuts    []string
	rounds  map[string]int    // of c10d, by rendezvous id
	masters map[string]string // address and port of the workers' store, by the key
	hosts   map[string]string // torch 1.13: the host of a rank, by the key of its blob
	named   int               // keys asked for by name
	total   int               // bytes of values
	large   int               // values skipped for their size
	unread  int               // values that do not decode
}

// connect dials and says hello; it returns how many keys there are.
func (r *reader) connect(d dialect) (int, error) {
	r.hangUp()
	conn, err := r.dial(r.ctx)
	if err != nil {
		return 0, err
	}
	if end, ok := r.ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	r.link = newLink(conn, d)
	r.detach = context.AfterFunc(r.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return r.link.hello()
}

func (r *reader) hangUp() {
	if r.link != nil {
		r.detach()
		_ = r.link.conn.Close()
		r.link = nil
	}
}

func (r *reader) read() error {
	n, err := r.connect(current)
	if errors.Is(err, ErrClosed) && !r.link.answered {
		n, err = r.connect(old)
	}
	if err != nil {
		return err
	}
	r.board.Keys = n
	if r.link.dialect == old {
		return r.byName("torch before 2.10 cannot list its keys")
	}
	if n > maxListed {
		return r.byName(fmt.Sprintf("%d keys are too many to list", n))
	}
	keys, err := r.list()
	switch {
	case errors.Is(err, ErrClosed):
		if n, err = r.connect(current); err != nil {
			return err
		}
		r.board.Keys = n
		return r.byName("torch before 2.10 cannot list its keys")
	case err != nil:
		r.board.Unlisted = true
		return r.softly(err)
	}
	return r.softly(r.fetch(keys))
}

// list returns the keys that matter.
func (r *reader) list() ([]key, error) {
	var keys []key
	n := 0
	long, err := r.link.keys(func(text string) {
		n++
		if k := parseKey(text); k.kind != kindNone {
			keys = append(keys, k)
		}
	})
	if err != nil {
		return nil, err
	}
	r.board.Keys = n + long
	if long > 0 {
		r.cut("%d keys are longer than %d bytes", long, maxKey)
	}
	return keys, nil
}

// byName asks for the keys that a job of the hints would have.
func (r *reader) byName(why string) error {
	r.board.Unlisted = true
	err := r.fetch(parseAll([]string{"init/"}))
	for _, run := range r.hints.runs() {
		if err == nil {
			err = r.fetch(parseAll([]string{"/" + rendezvousPrefix + run}))
		}
	}
	if err == nil {
		err = r.fetch(r.hints.agentNames(r.rounds))
	}
	if err == nil {
		keys, all := rankNames(r.link.dialect, cmp.Or(r.hints.World, r.world()))
		if !all {
			r.cut("not all ranks were asked for")
		}
		err = r.fetch(keys)
	}
	r.cut("%s; %d were asked for by name", why, r.named)
	return r.softly(err)
}

// world returns WORLD_SIZE by the keys of the agents.
func (r *reader) world() int {
	world, sum := 0, 0
	for _, s := range r.board.Shares {
		world = max(world, s.World)
	}
	for _, a := range r.board.Agents {
		sum += min(a.Local, 1<<16)
	}
	return max(world, sum)
}

// softly turns the end of a conversation that has begun well into a cut.
func (r *reader) softly(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrGarbage), errors.Is(r.ctx.Err(), context.Canceled):
		return err
	case errors.Is(err, errLate):
		r.cut("%v", err)
	default:
		r.cut("the store stopped answering: %v", err)
	}
	return nil
}

var errLate = errors.New("the time was not enough for all values")

// fetch reads the values of the keys that exist, the ones that matter most first.
func (r *reader) fetch(keys []key) error {
	slices.SortStableFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.group, b.group), cmp.Compare(a.index, b.index))
	})
	size := 256 // of a value
	most := 32  // keys of a batch
	quick := (limit / reserved) / 4
	for len(keys) > 0 {
		n := min(batchOf(keys, size), most)
		began := time.Now()
		if began.After(r.last) {
			r.withoutValues(keys)
			return errLate
		}
		if r.total > maxTotal {
			r.withoutValues(keys)
			r.cut("only %d MiB of values were read", r.total>>20)
			return nil
		}
		there, err := r.link.have(keys[:n])
		if err == nil {
			err = r.link.values(there, func(k key, value []byte) {
				if size = max(size, len(value)); value == nil {
					size = maxAnswers
				}
				r.total += len(value)
				r.put(k, value)
			})
		}
		if err != nil {
			r.withoutValues(keys)
			return err
		}
		if r.board.Unlisted {
			r.named += n
		}
		keys = keys[n:]
		// A batch of a slow store ends within the time that is kept for it.
		if most = min(2*most, maxBatch); time.Since(began) > quick {
			most = max(1, most/4)
		}
	}
	return nil
}

// batchOf returns how many of the keys fit one write, and their values of a size one socket buffer.
func batchOf(keys []key, size int) int {
	n, sent := 0, 0
	for n < min(len(keys), maxBatch, max(1, maxAnswers/size)) && sent < maxSent-maxKey {
		sent += 1 + 8 + 8 + len(keys[n].text)
		n++
	}
	return n
}

// cut notes what was left out.
func (r *reader) cut(format string, args ...any) {
	r.cuts = append(r.cuts, fmt.Sprintf(format, args...))
}
