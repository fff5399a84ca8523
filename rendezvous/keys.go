package rendezvous

import (
	"fmt"
	"strconv"
	"strings"
)

// keys spells the keys of one job. The job's id is escaped, so that two jobs
// never share a prefix.
type keys struct{ root string }

const keysRoot = "/launch/"

func keysOf(job string) keys {
	return keys{keysRoot + strings.ReplaceAll(strings.ReplaceAll(job, "%", "%25"), "/", "%2F") + "/"}
}

func (k keys) members() string  { return k.root + "m/" }
func (k keys) control() string  { return k.root + "c/" }
func (k keys) leader() string   { return k.root + "c/leader" }
func (k keys) epoch() string    { return k.root + "c/epoch" }
func (k keys) progress() string { return k.root + "c/progress" }
func (k keys) conflict() string { return k.root + "c/conflict" }
func (k keys) late() string     { return k.root + "c/late" }
func (k keys) results() string  { return k.root + "c/r/" }
func (k keys) worlds() string   { return k.root + "w/" }
func (k keys) posts() string    { return k.root + "p/" }
func (k keys) notes() string    { return k.root + "n/" }

// slot is where a node belongs: its index where it has one, so that two nodes
// with one index meet at one key; else its random identity.
func slot(m Member) string {
	if m.Index >= 0 {
		return fmt.Sprintf("%07d", m.Index)
	}
	return "a-" + m.ID
}

// note is where a node that is not fit says so: its index, or its name. A member
// of that key has come in its place.
func (k keys) note(index int, name string) string {
	if index >= 0 {
		return fmt.Sprintf("%s%07d", k.notes(), index)
	}
	return k.notes() + "a-" + name
}

func (k keys) member(m Member) string { return k.members() + slot(m) }

func (k keys) world(nonce string) string { return k.worlds() + nonce + "/" }

func (k keys) place(nonce string, m Member) string { return k.world(nonce) + slot(m) }

func (k keys) result(epoch int, round string) string {
	return fmt.Sprintf("%s%d/%s", k.results(), epoch, round)
}

// quit says that a node of a sealed world left it before the start.
func (k keys) quit(nonce string) string { return k.results() + nonce }

func (k keys) round(epoch int, round string) string {
	return fmt.Sprintf("%s%d/%s/", k.posts(), epoch, round)
}

func (k keys) post(epoch int, round string, rank int) string {
	return k.round(epoch, round) + strconv.Itoa(rank)
}

// posted reads a post's key: the round's and the rank.
func (k keys) posted(key string) (round string, rank int, ok bool) {
	i := strings.LastIndexByte(key, '/') + 1
	rank, err := strconv.Atoi(key[i:])
	return key[:i], rank, err == nil
}
