package netns

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// waiting is how many frames a long wire holds; further frames are lost, as in a switch.
const waiting = 4096

// Long turns the host's cable into a wide-area link: frames arrive later by delay, and a share of them (0 to 1)
// is lost. It needs /dev/net/tun; many kernels lack netem.
func (h *Host) Long(delay time.Duration, loss float64) {
	l := h.lab
	l.t.Helper()
	near, far, between := h.port+"near", h.port+"far", h.port+"br"
	for _, tap := range []string{near, far} {
		l.must("-n", l.sw, "tuntap", "add", tap, "mode", "tap")
		l.must("-n", l.sw, "link", "set", tap, "mtu", "9000") // a cable takes what is sent
	}
	l.must("-n", l.sw, "link", "add", between, "type", "bridge")
	l.must("-n", l.sw, "link", "set", h.port, "master", between)
	l.must("-n", l.sw, "link", "set", near, "master", between, "up")
	l.must("-n", l.sw, "link", "set", between, "up")
	l.must("-n", l.sw, "link", "set", far, "master", "br0", "up")
	ends, err := taps(filepath.Join("/var/run/netns", l.sw), near, far)
	if err != nil {
		l.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { carry(ends[0], ends[1], delay, loss) })
	wg.Go(func() { carry(ends[1], ends[0], delay, loss) })
	l.ends = append(l.ends, func() {
		for _, e := range ends {
			_ = e.Close() // ends the reader
		}
		wg.Wait()
	})
}

// taps opens interfaces of another namespace, in a thread that is used for nothing else.
func taps(ns string, names ...string) (files []*os.File, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var at *os.File
		if at, err = os.Open(ns); err != nil {
			return
		}
		defer at.Close()
		if err = unix.Setns(int(at.Fd()), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter %q: %w", ns, err)
			return
		}
		for _, name := range names {
			var f *os.File
			if f, err = tap(name); err != nil {
				return
			}
			files = append(files, f)
		}
	}()
	<-done
	return files, err
}

func tap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("open interface %q: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// carry copies frames from one end to the other until both are closed.
func carry(from, to *os.File, delay time.Duration, loss float64) {
	type frame struct {
		due  time.Time
		data []byte
	}
	queue := make(chan frame, waiting)
	var wg sync.WaitGroup
	wg.Go(func() {
		late := time.NewTimer(0)
		defer late.Stop()
		for f := range queue {
			late.Reset(time.Until(f.due))
			<-late.C
			_, _ = to.Write(f.data) // a frame that is refused is lost
		}
	})
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			break
		}
		if rand.Float64() < loss {
			continue
		}
		select {
		case queue <- frame{time.Now().Add(delay), append([]byte(nil), buf[:n]...)}:
		default:
		}
	}
	close(queue)
	wg.Wait()
}
