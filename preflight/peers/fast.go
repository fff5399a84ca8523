package peers

import (
	"fmt"
	"slices"

	"launch/internal/finding"
)

// toFast reports whether a call went to the address of a node in a faster network.
func toFast(e edge) bool {
	return slices.ContainsFunc(e.to.Listens, func(l Listen) bool {
		return l.Speed > 0 && l.Addr.String() == hostOf(e.call.Addr)
	})
}

// fastNetwork reports whether all nodes have a faster network, each was called there, and every call got
// through. The calls there are returned.
func fastNetwork(posts []Post) (all bool, made []edge) {
	called := map[int]bool{}
	all = len(posts) > 1
	for _, e := range edges(posts) {
		if e.call.Also && toFast(e) {
			made = append(made, e)
			called[e.to.Rank] = true
			all = all && !e.call.Failed()
		}
	}
	for _, p := range posts {
		has := slices.ContainsFunc(p.Listens, func(l Listen) bool { return l.Speed > 0 })
		all = all && has && called[p.Rank]
	}
	return all, made
}

// compareFast warns where the nodes do not reach each other in a faster network that each of them has.
func compareFast(posts []Post) []judged {
	usable, made := fastNetwork(posts)
	least, most := 0, 0 // the slowest of the fast networks, and what the job uses now
	for _, p := range posts {
		i := slices.IndexFunc(p.Listens, func(l Listen) bool { return l.Speed > 0 })
		if i < 0 {
			return nil // not all have one
		}
		if l := p.Listens[i]; least == 0 || l.Speed < least {
			least = l.Speed
		}
		most = max(most, p.Listens[i].Than)
	}
	made = slices.DeleteFunc(made, func(e edge) bool { return !e.call.Failed() })
	if usable || len(made) == 0 {
		return nil
	}
	e := made[0]
	made = slices.DeleteFunc(made, func(o edge) bool { return o.to.Rank != e.to.Rank })
	f := finding.Warnf("the job's data goes over a network of %s; each node also has one of %s, in which %s to %s "+
		"failed", bits(most), bits(least), finding.Count(len(made), "call"), e.to.Name).Named("peer.fast")
	for _, e := range made[:min(len(made), finding.MaxSeen)] {
		f = f.See(fmt.Sprintf("%s to %s", e.from.Name, e.call.Addr), "%s", wordsOf(e, posts).why)
	}
	return []judged{{f.Breaking("every collective is as slow as the slow network").
		Do("open that network between the nodes, or give all of them its addresses: launch --addr NETWORK …   "+
			"# the network of %s", hostOf(e.call.Addr)), nil}}
}

// bits returns a speed in Mb/s in words.
func bits(speed int) string {
	if speed >= 1000 {
		return fmt.Sprintf("%g Gb/s", float64(speed)/1000)
	}
	return fmt.Sprintf("%d Mb/s", speed)
}
