package diagnose

import (
	"net/netip"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// A key of torch's store is never set where all others wait for the rank that waits for it.
func TestAKeyThatNoRankSets(t *testing.T) {
	judgeTwins(t, "store-key", []twin{
		{"the other rank is in a collective", func([]scene.Scene, *scene.Proc, *scene.Proc) {}, "store.key", verdict.Certain},
		{"it asks again and again", func(all []scene.Scene, _, p *scene.Proc) { polls(all, p, time.Millisecond) },
			"store.key", verdict.Likely},
		{"it sleeps and asks nothing", func(all []scene.Scene, _, p *scene.Proc) { polls(all, p, time.Minute) },
			"rank.left", verdict.Likely},
		{"the other rank has a thread more", func(_ []scene.Scene, p, _ *scene.Proc) {
			p.Stacks = append(p.Stacks, scene.Stack{Thread: "saver", Frames: []string{"save (train.py:4)"}})
		}, "store.key", verdict.Likely},
		{"a client more has been there", func(all []scene.Scene, _, _ *scene.Proc) {
			for i := range all {
				for _, st := range all[i].Stores {
					if st.Board != nil {
						st.Board.Clients = 5
					}
				}
			}
		}, "store.key", verdict.Likely},
		{"a child has a connection to it", func(all []scene.Scene, _, p *scene.Proc) {
			all[1].Procs = append(all[1].Procs, scene.Proc{PID: 7, Parent: p.PID, Role: scene.Child, State: "S"})
			for _, k := range all[1].Sockets {
				if k.Inode == p.Syscall.Socket {
					k.PID, k.Inode = 7, k.Inode+1
					all[1].Sockets = append(all[1].Sockets, k)
				}
			}
		}, "store.key", verdict.Likely},
		{"the other rank writes a checkpoint", func(_ []scene.Scene, p, _ *scene.Proc) { p.Moved.CPU = time.Second },
			"rank.left", verdict.Certain},
		{"it waits for another server", func(all []scene.Scene, _, p *scene.Proc) {
			for i, k := range all[1].Sockets {
				if k.Inode == p.Syscall.Socket {
					all[1].Sockets[i].Remote = netip.MustParseAddrPort("10.66.0.250:80")
				}
			}
		}, "rank.left", verdict.Certain},
		{"bytes move between ranks", func(all []scene.Scene, p, _ *scene.Proc) {
			for i, k := range all[0].Sockets {
				if k.PID == p.PID && k.Info != nil && k.Info.Sent > 1<<20 {
					all[0].Sockets[i].Info.LastSent = time.Second
				}
			}
		}, "", ""},
	})
}
