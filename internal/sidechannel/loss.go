package sidechannel

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drips is how many small segments are sent to count the lost ones, dripGap apart, and dripsAtOnce of them on the
	// way: they fill no queue of a slow path, and a fast one takes about 0.2 s.
	drips, dripGap, dripsAtOnce = 200, 500 * time.Microsecond, 8
	// dripBudget bounds them: where many are lost, the others wait for them.
	dripBudget = 3 * time.Second
	// fewDrips is too few segments to say which share is lost.
	fewDrips = 20
	// slowStart is how many round trips a load takes at any speed, until the window has grown to it.
	slowStart = 6
)

// Loss counts small segments on an open connection, which no queue of their own delays.
type Loss struct {
	Sent  int  // segments with data; those sent again count again
	Again int  // of these, those that were sent again, and had not arrived before
	Cut   bool // the path did not take even the greeting in time
}

// Share returns the share of segments that were lost; 0 also where too few were sent to say.
func (l Loss) Share() float64 {
	switch {
	case l.Cut && l.Sent == 0:
		return 1
	case l.Sent == 0 || l.Sent < fewDrips && !l.Cut:
		return 0
	}
	return float64(l.Again) / float64(l.Sent)
}

// Suspect reports whether a call lost anything, or a long message or packet did not arrive: the path may lose packets.
func (a Answer) Suspect() bool {
	return a.Retrans > 0 || a.Flows.Late > 0 || a.Bulk.Out.Stalled || a.Bulk.Back.Stalled || a.MTU.BlackHole()
}

// CountLoss sends small segments over a connection of its own, and counts those that it sent again.
func CountLoss(ctx context.Context, to netip.AddrPort, keys *tls.Config, opt Options) (l Loss) {
	raw, err := dial(ctx, to, opt.From, opt.Via)
	if err != nil {
		return Loss{Cut: CauseOf(err) == Dropped}
	}
	defer raw.Close()
	defer raw.SetLinger(0)
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	_ = raw.SetDeadline(time.Now().Add(greetBudget))
	dialed := TCPInfo(raw)
	before := unix.TCPInfo{Total_retrans: dialed.Total_retrans, Dsack_dups: dialed.Dsack_dups} // of the SYN
	c, _, err := greet(raw, keys)
	if err != nil {
		l = counted(before, TCPInfo(raw))
		l.Cut = talking(ctx, err) == Silent
		return l
	}
	end := time.Now().Add(dripBudget)
	_ = raw.SetDeadline(end)
	if _, err := c.Write(binary.BigEndian.AppendUint16([]byte{opDrip}, drips)); err != nil {
		return l
	}
	gap := time.NewTicker(dripGap)
	defer gap.Stop()
	for range drips {
		if _, err := c.Write([]byte{0}); err != nil {
			break
		}
		for <-gap.C; crowded(TCPInfo(raw)) && time.Now().Before(end); <-gap.C {
		}
	}
	_, _ = io.ReadFull(c, make([]byte, 1)) // the receipt
	return counted(before, TCPInfo(raw))
}

// crowded reports whether as many segments are on the way as may be: a further one would wait, and join the next.
func crowded(i unix.TCPInfo) bool {
	onTheWay := int(i.Unacked) - int(i.Sacked) - int(i.Lost) + int(i.Retrans) // tcp_packets_in_flight
	return onTheWay >= min(dripsAtOnce, int(i.Snd_cwnd))
}

// counted counts between two looks. Of what was sent again in vain the receiver says that it had arrived (DSACK, RFC
// 2883): on a machine whose cores are busy, answers come late.
func counted(before, after unix.TCPInfo) Loss {
	again := int(after.Total_retrans) - int(before.Total_retrans) - int(after.Dsack_dups) + int(before.Dsack_dups)
	return Loss{Sent: max(0, int(after.Data_segs_out)-int(before.Data_segs_out)), Again: max(0, again)}
}

// catch reads the small segments of drip, and sends a receipt.
func catch(c net.Conn) error {
	size := make([]byte, 2)
	if _, err := io.ReadFull(c, size); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint16(size))); err != nil {
		return err
	}
	_, err := c.Write([]byte{opDrip})
	return err
}

// speed returns the speed of what this side has sent, in bytes per second, without the time in which the other
// process did not read, this one had not written, or the window was still growing. 0: too little to say.
func speed(before, after unix.TCPInfo) float64 {
	busy := time.Duration(after.Busy_time-after.Rwnd_limited-after.Sndbuf_limited) * time.Microsecond
	busy -= time.Duration(before.Busy_time-before.Rwnd_limited-before.Sndbuf_limited) * time.Microsecond
	busy -= slowStart * time.Duration(after.Min_rtt) * time.Microsecond
	sent := after.Bytes_acked - before.Bytes_acked
	if busy <= 0 || after.Busy_time < after.Rwnd_limited+after.Sndbuf_limited || sent < uint64(after.Snd_mss) {
		return 0
	}
	return float64(sent) / busy.Seconds()
}
