package protocol

import (
	"strconv"
	"strings"
)

// Keys has the keys and prefixes of one job.
type Keys struct {
	Root     string // prefix: all
	Members  string // prefix: the nodes' own keys
	Control  string // prefix: what every node watches
	Leader   string // the leader
	Epoch    string // the epoch
	Progress string // the attendance
	Conflict string // a node that wants a taken index
	Late     string // the nodes that have not started in time
	Results  string // prefix: the results of rounds
	Worlds   string // prefix: all places
	Posts    string // prefix: what nodes post to rounds
	Notes    string // prefix: the notes of unfit nodes
}

// Root is the prefix of all keys of launch.
const Root = "/launch/"

// KeysOf returns the keys of a job. It escapes the job's id, so that two jobs never
// share a prefix.
func KeysOf(job string) Keys {
	return KeysBelow(Root + strings.ReplaceAll(strings.ReplaceAll(job, "%", "%25"), "/", "%2F") + "/")
}

// KeysBelow returns the keys of the job with this prefix.
func KeysBelow(root string) Keys {
	return Keys{
		Root: root, Members: root + "m/", Worlds: root + "w/", Posts: root + "p/", Notes: root + "n/",
		Control: root + "c/", Leader: root + "c/leader", Epoch: root + "c/epoch", Progress: root + "c/progress",
		Conflict: root + "c/conflict", Late: root + "c/late", Results: root + "c/r/",
	}
}

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
		return k.Notes + padded(index)
	}
	return k.Notes + "a-" + name
}

// Member returns a node's own key.
func (k Keys) Member(m Member) string { return k.Members + Slot(m) }

// World returns the prefix of the places of one sealed world.
func (k Keys) World(nonce string) string { return k.Worlds + nonce + "/" }

// Place returns the key of a node's place.
func (k Keys) Place(nonce string, m Member) string { return k.World(nonce) + Slot(m) }

// Result returns the key of a round's result.
func (k Keys) Result(epoch int, round string) string {
	return k.Results + strconv.Itoa(epoch) + "/" + round
}

// Quit returns the key that says that a node left a sealed world before the start.
func (k Keys) Quit(nonce string) string { return k.Results + nonce }

// Round returns the prefix of the posts of one round.
func (k Keys) Round(epoch int, round string) string {
	return k.Posts + strconv.Itoa(epoch) + "/" + round + "/"
}

// Post returns the key of one node's post.
func (k Keys) Post(epoch int, round string, rank int) string {
	return k.Round(epoch, round) + strconv.Itoa(rank)
}

// Posted reads a post's key: the round's prefix and the rank.
func (k Keys) Posted(key string) (round string, rank int, ok bool) {
	i := strings.LastIndexByte(key, '/') + 1
	rank, err := strconv.Atoi(key[i:])
	return key[:i], rank, err == nil && number(rank) && strconv.Itoa(rank) == key[i:]
}

// Large returns whether a key's value grows with the nodes or with what they measure: a post or the
// result of a round.
func (k Keys) Large(key string) bool {
	result, ok := strings.CutPrefix(key, k.Results)
	return ok && strings.Contains(result, "/") || strings.HasPrefix(key, k.Posts)
}

// Speaks returns whether Permits looks into a key's value. The others are read by nodes alone, for whom
// what is not sound is not there.
func (k Keys) Speaks(conds []Cond, key string) bool {
	return key != k.Epoch && !strings.HasPrefix(key, k.Posts) && !strings.HasPrefix(key, k.Results) &&
		!(strings.HasPrefix(key, k.Worlds) && k.Leads(conds))
}
