package rendezvous

import (
	"fmt"
	"strconv"
	"strings"
)

// keys spells the keys of one job. The job's id is escaped, so that two jobs
// never share a prefix.
type keys struct{ root string }

func keysOf(job string) keys {
	return keys{"/launch/" + strings.NewReplacer("%", "%25", "/", "%2F").Replace(job) + "/"}
}

func (k keys) members() string { return k.root + "m/" }
func (k keys) control() string { return k.root + "c/" }
func (k keys) leader() string  { return k.root + "c/leader" }
func (k keys) epoch() string   { return k.root + "c/epoch" }
func (k keys) notice() string  { return k.root + "c/notice" }
func (k keys) missing() string { return k.root + "c/missing" }
func (k keys) posts() string   { return k.root + "p/" }

// member is the node's own key: its index where it has one, so that two nodes
// with one index meet at one key; else its random identity.
func (k keys) member(m Member) string {
	if m.Index >= 0 {
		return fmt.Sprintf("%s%07d", k.members(), m.Index)
	}
	return k.members() + "a-" + m.ID
}

func (k keys) result(epoch int, round string) string {
	return fmt.Sprintf("%sc/r/%d/%s", k.root, epoch, round)
}

func (k keys) round(epoch int, round string) string {
	return fmt.Sprintf("%s%d/%s/", k.posts(), epoch, round)
}

func (k keys) post(epoch int, round string, rank int) string {
	return k.round(epoch, round) + strconv.Itoa(rank)
}
