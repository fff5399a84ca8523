package sidechannel

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// bulkBudget ends a slow exchange. stallAfter without an arrival is a stall: three retransmissions
	// from Linux's least timeout on (0.2, 0.6 and 1.4 s), since a lost segment or two are none.
	bulkBudget, stallAfter = 2 * time.Second, 1600 * time.Millisecond
	bulkTick               = 20 * time.Millisecond
)

// Bulk is the result of a load both ways in full segments, which may fail where small messages pass.
type Bulk struct {
	Out, Back Flow
	Took      time.Duration
	// Cut: the connection was reset or closed before all had arrived. A listener does so only where its process ends.
	Cut bool
}

// Flow is one direction. Bytes that are missing without a stall were cut off, or slow if it took 2
// s. If Back stalls, the other process may be stopped: blame the path only if MTU agrees.
type Flow struct {
	Arrived int  // bytes; out: those that the other side's kernel has acknowledged
	Stalled bool // bytes are missing, and none has arrived for the last 1.6 s
}

// exchange sends n bytes while it reads n, then sends a receipt.
func exchange(c net.Conn, n int) error {
	sent := make(chan error, 1)
	go func() {
		_, err := io.CopyN(c, zeros{}, int64(n))
		sent <- err
	}()
	_, err := io.CopyN(io.Discard, c, int64(n))
	if err = errors.Join(<-sent, err); err == nil {
		_, err = c.Write([]byte{opBulk})
	}
	return err
}

// zeros reads as zero bytes without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// counter is a writer that counts.
type counter struct{ atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) { c.Add(int64(len(p))); return len(p), nil }

// closed reports whether a connection was reset or closed by the other end, or by a machine between.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) ||
		errors.Is(err, unix.EPIPE)
}

// flow watches one direction.
type flow struct {
	arrived int
	moved   time.Time
}

// see notes how many bytes have arrived by now.
func (f *flow) see(arrived int, now time.Time) {
	if arrived > f.arrived {
		f.arrived, f.moved = arrived, now
	}
}

func (f *flow) stalled(n int, now time.Time) bool {
	return f.arrived < n && now.Sub(f.moved) >= stallAfter
}

// over reports whether no more bytes are expected.
func (f *flow) over(n int, now time.Time) bool { return f.arrived >= n || f.stalled(n, now) }

// bulk exchanges n bytes each way over c, whose socket is raw.
func bulk(raw *net.TCPConn, c net.Conn, n int) Bulk {
	n = min(n, maxBulk)
	began := time.Now()
	_ = c.SetDeadline(began.Add(bulkBudget))
	before := TCPInfo(raw).Bytes_acked
	var arrived counter
	var all, cut atomic.Bool // the other side has sent its receipt; the connection is closed
	over := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := c.Write(binary.BigEndian.AppendUint32([]byte{opBulk}, uint32(n))); err == nil {
			if _, err = io.CopyN(c, zeros{}, int64(n)); closed(err) {
				cut.Store(true)
			}
		}
	})
	both.Go(func() {
		defer close(over)
		receipt := make([]byte, 1)
		_, err := io.CopyN(&arrived, c, int64(n))
		if err == nil {
			_, err = io.ReadFull(c, receipt)
			all.Store(err == nil && receipt[0] == opBulk)
		}
		if closed(err) {
			cut.Store(true)
		}
	})
	out, back := flow{moved: began}, flow{moved: began}
	tick := time.NewTicker(bulkTick)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-over:
			ended = true
		case <-tick.C:
		}
		now := time.Now()
		back.see(int(arrived.Load()), now)
		if info := TCPInfo(raw); all.Load() {
			out.see(n, now)
		} else if out.see(min(int(info.Bytes_acked-before), n), now); info.Unacked == 0 {
			out.moved = now // all is acknowledged: the other process does not read
		}
		// The kernel acknowledges bytes; the receipt is from the peer itself.
		ended = ended || out.over(n, now) && back.over(n, now) && (out.stalled(n, now) || back.stalled(n, now))
	}
	now := time.Now()
	b := Bulk{Took: now.Sub(began),
		Out: Flow{out.arrived, out.stalled(n, now)}, Back: Flow{back.arrived, back.stalled(n, now)}}
	_ = c.SetDeadline(now)
	both.Wait()
	b.Cut = cut.Load() && !all.Load()
	if !all.Load() {
		_ = raw.SetLinger(0)
	}
	return b
}
