package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// larger finds a job all of whose ranks wait in init_process_group for more ranks than it has. What a rank publishes
// for Gloo is as long as the world that its script asks for; torch's rank 0 of env:// counts those that have reached
// its store, and asks every 10 ms.
func (v *view) larger() []claim {
	if !v.allInInit() || len(v.worlds()) > 0 {
		return nil
	}
	first, size := v.seat(0), 0
	for _, b := range v.blobs {
		size = max(size, b.World)
	}
	switch {
	case size > v.world:
		return []claim{claimed("world.larger", v.unlessHelped(), fmt.Sprintf("the script gives init_process_group "+
			"world_size=%d, and the job has %d ranks (WORLD_SIZE=%[2]d), all of which are there: they wait for %s", size,
			v.world, rankWords(between(v.world, size)))).of([]int{0}, first.node).
			see("store", fmt.Sprintf("what rank %d has published is for %d ranks", slices.Min(v.published()), size))}
	case first.phase == counting:
		return []claim{claimed("world.larger", verdict.Likely, fmt.Sprintf("all %d ranks have reached the store, and rank 0 "+
			"waits for more: does the script give init_process_group a larger world_size than WORLD_SIZE=%[1]d?", v.world)).
			of([]int{0}, first.node).see("WORLD_SIZE", strconv.Itoa(v.world))}
	}
	return nil
}

// renumbered finds ranks whose script gives init_process_group the number of another one: a rank publishes its address
// before it waits for those of others, and the address of these is not there.
func (v *view) renumbered() []claim {
	published, absent := v.published(), v.absentKeys()
	if !v.allInInit() || v.seat(0).phase != keys || len(published) == 0 || len(absent) == 0 || v.board.Cut != "" ||
		len(v.larger()) > 0 {
		return nil
	}
	var local []int
	for _, s := range v.seats {
		local = append(local, number(s.proc.Env, "LOCAL_RANK"))
	}
	slices.Sort(local)
	instead := ""
	if slices.Equal(slices.Compact(local), published) {
		instead = " (LOCAL_RANK, as it seems)"
	}
	c := claimed("rank.duplicate", v.unlessHelped(), fmt.Sprintf("all %d ranks wait in init_process_group, and only %s "+
		"%s published an address: the script gives it another number than RANK%s for %s", v.world,
		rankWords(published), verb(published, "has", "have"), instead, rankWords(absent))).
		do(`rank=int(os.environ["RANK"]) in init_process_group, or leave rank and world_size out: it takes those of the ` +
			"environment; LOCAL_RANK begins at 0 on each node")
	for _, r := range absent[:min(len(absent), maxSeen-1)] {
		c = c.see(procPath(v.seat(r).proc, "environ"), fmt.Sprintf("RANK=%d LOCAL_RANK=%s", r,
			v.seat(r).proc.Env["LOCAL_RANK"]))
	}
	return []claim{c.of(absent, v.nodesOf(absent)...).see("store", "no key /default_pg/0//cpu//0/"+verdict.Spans(absent))}
}

// published returns the ranks that have an address in the default group.
func (v *view) published() []int { return slices.Sorted(maps.Keys(v.blobs)) }

// between returns the numbers from low up to high, without it.
func between(low, high int) (out []int) {
	for r := low; r < high; r++ {
		out = append(out, r)
	}
	return out
}

// allInInit reports whether each rank of the job has exactly one process, and waits in init_process_group for keys of
// others, for the whole look; rank 0 may count those that reach its store.
func (v *view) allInInit() bool {
	if v.world < 2 || v.board == nil || len(v.seats) != v.world {
		return false
	}
	for r := range v.world {
		s := v.seat(r)
		if s == nil {
			return false
		}
		if r == 0 && s.phase == counting {
			continue
		}
		if s.phase != keys || v.initDone(s) || s.proc.Moved.Switches > 0 || !v.toStore(s, func(k scene.Socket) bool {
			return k.State == "established" && k.Info != nil && min(k.Info.LastSent, k.Info.LastRecv) > time.Second
		}) {
			return false
		}
	}
	return true
}

// unlessHelped is how sure it is that no further process joins the ranks: one that a rank has started may.
func (v *view) unlessHelped() verdict.Sure {
	for _, n := range v.nodes {
		if n.scene != nil && slices.ContainsFunc(n.scene.Procs, func(p scene.Proc) bool { return p.Role == scene.Child }) {
			return verdict.Possible
		}
	}
	return verdict.Certain
}
