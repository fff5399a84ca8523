package protocol

import (
	"strconv"
	"strings"
)

// Keys spells the keys of one job. It escapes the job's id, so that two jobs
// never share a prefix.
type Keys struct{ Root string }

// Root is the prefix of all keys of launch.
const Root = "/launch/"

// KeysOf returns the keys of a job.
func KeysOf(job string) Keys {
	return Keys{Root + strings.ReplaceAll(strings.ReplaceAll(job, "%", "%25"), "/", "%2F") + "/"}
}

// Members returns the prefix of the nodes' own keys.
func (k Keys) Members() string { return k.Root + "m/" }

// Control returns the prefix that every node watches.
func (k Keys) Control() string { return k.Root + "c/" }

// Leader returns the key of the leader.
func (k Keys) Leader() string { return k.Root + "c/leader" }

// Epoch returns the key of the epoch.
func (k Keys) Epoch() string { return k.Root + "c/epoch" }

// Progress returns the key of the attendance.
func (k Keys) Progress() string { return k.Root + "c/progress" }

// Conflict returns the key of a node that wants a taken index.
func (k Keys) Conflict() string { return k.Root + "c/conflict" }

// Late returns the key of the nodes that have not started in time.
func (k Keys) Late() string { return k.Root + "c/late" }

// Results returns the prefix of the results of rounds.
func (k Keys) Results() string { return k.Root + "c/r/" }

// Worlds returns the prefix of all places.
func (k Keys) Worlds() string { return k.Root + "w/" }

// Posts returns the prefix of what nodes post to rounds.
func (k Keys) Posts() string { return k.Root + "p/" }

// Notes returns the prefix of the notes of unfit nodes.
func (k Keys) Notes() string { return k.Root + "n/" }

// Slot returns the last part of a node's key: its index where it has one, so
// that two nodes with one index share a key; else its random identity.
func Slot(m Member) string {
	if m.Index >= 0 {
		return padded(m.Index)
	}
	return "a-" + m.ID
}

// padded returns an index with seven digits.
func padded(index int) string {
	s := strconv.Itoa(index)
	return "0000000"[:max(0, 7-len(s))] + s
}

// Note returns the key of an unfit node's note: by its index, or by its name. A
// member with that index makes the note obsolete.
func (k Keys) Note(index int, name string) string {
	if index >= 0 {
		return k.Notes() + padded(index)
	}
	return k.Notes() + "a-" + name
}

// Member returns a node's own key.
func (k Keys) Member(m Member) string { return k.Members() + Slot(m) }

// World returns the prefix of the places of one sealed world.
func (k Keys) World(nonce string) string { return k.Worlds() + nonce + "/" }

// Place returns the key of a node's place.
func (k Keys) Place(nonce string, m Member) string { return k.World(nonce) + Slot(m) }

// Result returns the key of a round's result.
func (k Keys) Result(epoch int, round string) string {
	return k.Results() + strconv.Itoa(epoch) + "/" + round
}

// Quit returns the key that says that a node left a sealed world before the start.
func (k Keys) Quit(nonce string) string { return k.Results() + nonce }

// Round returns the prefix of the posts of one round.
func (k Keys) Round(epoch int, round string) string {
	return k.Posts() + strconv.Itoa(epoch) + "/" + round + "/"
}

// Post returns the key of one node's post.
func (k Keys) Post(epoch int, round string, rank int) string {
	return k.Round(epoch, round) + strconv.Itoa(rank)
}

// Posted reads a post's key: the round's prefix and the rank.
func (k Keys) Posted(key string) (round string, rank int, ok bool) {
	i := strings.LastIndexByte(key, '/') + 1
	rank, err := strconv.Atoi(key[i:])
	return key[:i], rank, err == nil
}
