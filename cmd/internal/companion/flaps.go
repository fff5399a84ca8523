package companion

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/internal/finding"
)

const (
	// flapSpan is the time in which a link that goes down twice is unsound: TCP survives each of these outages alone.
	flapSpan = time.Minute
	// maxFlapPause is the longest pause between two reports of one link.
	maxFlapPause = time.Hour
)

// links counts how often the links of this node's interfaces go down.
type links struct {
	net   fs.FS            // /sys/class/net
	known map[string]*link // by interface
}

// link is one interface.
type link struct {
	downs int64 // so far
	part  bool  // of a bond or a VLAN
	lost  []time.Time
	next  time.Time     // the next report
	pause time.Duration // after it
}

// newLinks returns the links of the interfaces that have this node's addresses, and what these are made of.
func (p *companion) newLinks() *links {
	l := &links{net: os.DirFS("/sys/class/net"), known: map[string]*link{}}
	if p.world == nil {
		return l
	}
	for _, a := range append(slices.Clone(p.world.Self.Addrs), p.world.Self.Addr) {
		if i, there := interfaceOf(a); there {
			l.add(i.Name, false)
		}
	}
	return l
}

// add takes in an interface, and those that a bond or a VLAN is made of.
func (l *links) add(name string, part bool) {
	if l.known[name] != nil {
		return
	}
	k := &link{pause: flapSpan, part: part}
	k.downs, _ = l.downs(name)
	l.known[name] = k
	entries, _ := fs.ReadDir(l.net, name)
	for _, e := range entries {
		if lower, ok := strings.CutPrefix(e.Name(), "lower_"); ok {
			l.add(lower, true)
		}
	}
}

// downs returns how often an interface has lost its carrier (Linux 4.16, Documentation/ABI/testing/sysfs-class-net).
func (l *links) downs(name string) (n int64, ok bool) {
	text, err := fs.ReadFile(l.net, path.Join(name, "carrier_down_count"))
	n, failed := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && failed == nil
}

// look returns the findings about links that have just gone down again.
func (l *links) look(now time.Time) (out []finding.Finding) {
	for _, name := range slices.Sorted(maps.Keys(l.known)) {
		k := l.known[name]
		downs, ok := l.downs(name)
		if !ok {
			continue
		}
		for range min(downs-k.downs, 100) {
			k.lost = append(k.lost, now)
		}
		rose := downs > k.downs
		k.downs = downs
		k.lost = slices.DeleteFunc(k.lost, func(at time.Time) bool { return now.Sub(at) > flapSpan })
		if !rose || len(k.lost) < 2 || now.Before(k.next) {
			continue
		}
		k.next, k.pause = now.Add(k.pause), min(2*k.pause, maxFlapPause)
		breaks := "what the ranks send meanwhile is lost, and sent again after a pause: each collective waits"
		if k.part {
			breaks = "a bond has less bandwidth meanwhile, and loses the packets that were on the way"
		}
		out = append(out, finding.Warnf("the link of %s went down %d times within a minute (seen at %s)", name, len(k.lost),
			now.Format("15:04:05")).Named("node.link").
			Breaking("%s", breaks).
			Do("ethtool -m %s; dmesg -T | grep %[1]s   # on this node\n"+
				"then change its cable or transceiver, or the port of the switch", name))
	}
	return out
}
