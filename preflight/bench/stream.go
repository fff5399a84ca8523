package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/sidechannel"
)

const (
	// chunk is the size of one write or read. All streams share this memory of the process.
	chunk = 256 << 10
	// pingSize is a short message: a header of the libraries, below any MTU.
	pingSize = 64
	// pingBudget limits the ping-pong on long paths.
	pingBudget = 60 * time.Millisecond
)

// send fills the streams for a time and returns what the kernel reports of them then.
func send(ctx context.Context, streams []*net.TCPConn, span time.Duration) (Flow, error) {
	ctx, stop := context.WithTimeout(ctx, span+lateBudget)
	defer stop()
	end := time.Now().Add(span)
	data := make([]byte, chunk)
	errs := make([]error, len(streams))
	var wg sync.WaitGroup
	for i, c := range streams {
		_ = c.SetDeadline(end)
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := c.Write(data); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	var f Flow
	var rtt []time.Duration
	for i, c := range streams {
		info := sidechannel.TCPInfo(c)
		f.Retrans += int(info.Total_retrans)
		f.Deliver += float64(info.Delivery_rate)
		f.Carried += float64(info.Bytes_sent)
		f.PMTU = int(info.Pmtu)
		rtt = append(rtt, time.Duration(info.Rtt)*time.Microsecond)
		if !ended(errs[i]) {
			return f, errs[i]
		}
	}
	slices.Sort(rtt)
	f.RTT = rtt[len(rtt)/2]
	return f, nil
}

// ended reports whether a stream ended normally: by the clock, or because the other side's clock was first.
func ended(err error) bool {
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, unix.ECONNRESET) ||
		errors.Is(err, unix.EPIPE) || errors.Is(err, io.EOF)
}

// receive counts the bytes that arrive in span, after warm: by then the windows are open,
// and a shaper's bucket is empty. The kernel counts (TCP_INFO), so data that waits in a
// buffer for a processor does not count as delayed on the path. The result is the speed of
// the better half of span: a timer of TCP, after a lost segment, may cost the other half.
func receive(ctx context.Context, streams []*net.TCPConn, warm, span time.Duration) (Flow, error) {
	errs := make([]error, len(streams))
	nowhere := make([]byte, chunk) // the kernel does not write to it
	var wg sync.WaitGroup
	began := time.Now()
	for i, c := range streams {
		_ = c.SetDeadline(began.Add(warm + span + lateBudget))
		wg.Go(func() { errs[i] = swallow(c, nowhere) })
	}
	arrived := func(after time.Duration) (bytes float64, at time.Time) {
		select {
		case <-time.After(after):
		case <-ctx.Done():
		}
		for _, c := range streams {
			bytes += float64(sidechannel.TCPInfo(c).Bytes_received)
		}
		return bytes, time.Now()
	}
	last, from := arrived(warm)
	var f Flow
	for range 2 {
		now, at := arrived(span / 2)
		f.Speed = max(f.Speed, (now-last)/at.Sub(from).Seconds())
		last, from = now, at
	}
	for _, c := range streams {
		_ = c.SetDeadline(time.Unix(1, 0)) // ends the reads
	}
	wg.Wait()
	if ctx.Err() != nil {
		return Flow{}, context.Cause(ctx)
	}
	for _, err := range errs {
		if !ended(err) {
			return Flow{}, err
		}
	}
	return f, nil
}

// swallow reads until the stream ends. The kernel drops the data (MSG_TRUNC, tcp(7)), so no copy costs time.
func swallow(c *net.TCPConn, nowhere []byte) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var end error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, _, err := unix.Recvfrom(int(fd), nowhere, unix.MSG_TRUNC|unix.MSG_DONTWAIT)
			switch {
			case err == unix.EAGAIN:
				return false
			case err == unix.EINTR:
				continue
			case err != nil || n == 0:
				end = err
				return true
			}
		}
	})
	return cmp.Or(err, end)
}

// ping sends short messages one after the other and returns half of each round trip. A
// last message of another kind ends the test for the other side.
func ping(c *net.TCPConn, most int) (Result, error) {
	_ = c.SetDeadline(time.Now().Add(pingBudget + lateBudget))
	_ = c.SetNoDelay(true)
	msg := make([]byte, pingSize)
	var took []time.Duration
	began := time.Now()
	for i := range most {
		sent := time.Now()
		if sent.Sub(began) > pingBudget && i > 0 {
			break
		}
		binary.BigEndian.PutUint32(msg, uint32(i+1))
		if _, err := c.Write(msg); err != nil {
			return Result{}, err
		}
		if _, err := io.ReadFull(c, msg); err != nil {
			return Result{}, err
		}
		took = append(took, time.Since(sent)/2)
	}
	clear(msg)
	if _, err := c.Write(msg); err != nil || len(took) == 0 {
		return Result{}, err
	}
	if len(took) > 10 {
		took = took[len(took)/10:] // the first ones wake sleeping processors
	}
	slices.Sort(took)
	return Result{Latency: took[len(took)/2], Tail: took[(len(took)*99-1)/100], Pings: len(took)}, nil
}

// pong answers until the last message.
func pong(c *net.TCPConn) error {
	_ = c.SetDeadline(time.Now().Add(pingBudget + 2*lateBudget))
	_ = c.SetNoDelay(true)
	msg := make([]byte, pingSize)
	for {
		if _, err := io.ReadFull(c, msg); err != nil {
			return err
		}
		if binary.BigEndian.Uint32(msg) == 0 {
			return nil
		}
		if _, err := c.Write(msg); err != nil {
			return err
		}
	}
}
