package tcpstore

import (
	"net/netip"
	"time"
)

// Board is what the keys of one torch store say about its job. Its names are those of torch 2.15; torch 1.13
// writes the same keys where nothing else is said.
type Board struct {
	Keys int `json:"keys"` // how many keys the store has
	// Clients is the value of init/: the clients that ever connected and were counted; it never goes down. -1
	// without the key.
	Clients int `json:"clients"`
	// Runs are the rendezvous ids that keys name, as /<id>/torchelastic/...
	Runs []string `json:"runs,omitempty"`
	// Agents are those that have written role_info/<node rank>, by node rank.
	Agents []Agent `json:"agents,omitempty"`
	// Shares are assigned_ranks/<node rank>, by node rank.
	Shares []Share `json:"shares,omitempty"`
	// Blobs are the addresses that ranks have published for Gloo, by group and index.
	Blobs []Blob `json:"blobs,omitempty"`
	// NCCL are the groups whose rank 0 has published an NCCL unique id.
	NCCL []UniqueID `json:"nccl,omitempty"`
	// Rendezvous are the states of c10d, one per rendezvous id.
	Rendezvous []Rendezvous `json:"rendezvous,omitempty"`
	// Barriers are the counts of barriers over the store, by key.
	Barriers []Barrier `json:"barriers,omitempty"`
	// Ended is the count of agents whose ranks have ended well (terminal_state/num_members); -1 without the key.
	Ended int `json:"ended"`
	// Cut says what was left out, as a key of a size that no torch writes; empty: nothing was.
	Cut string `json:"cut,omitempty"`
	// Unlisted: the store cannot list its keys (torch before 2.10), or has too many: only those of the hints were
	// asked for, so that a key which is not on the board may be there under a name that was not asked for.
	Unlisted bool `json:"unlisted,omitempty"`
}

// Agent is what one torchrun has written of itself.
type Agent struct {
	Run  string `json:"run"`
	Node int    `json:"node"` // node rank, the last part of the key
	// Round is c10d's, by the key; 0 elsewhere. Keys of earlier rounds remain in the store.
	Round int `json:"round,omitempty"`
	// Local is local_world_size: how many ranks it starts; 0: not said.
	Local int    `json:"local,omitempty"`
	Role  string `json:"role,omitempty"`
}

// Share is which ranks an agent is to start.
type Share struct {
	Run   string `json:"run"`
	Node  int    `json:"node"`
	Round int    `json:"round,omitempty"` // as of Agent
	Base  int    `json:"base"`            // its first rank
	World int    `json:"world"`           // WORLD_SIZE
}

// Blob is the address that a rank has published for a group of Gloo.
type Blob struct {
	Key string `json:"key"`
	// Group is 0 for the default group, the number of the subgroup, or -1 where it has a name and no number. torch
	// 1.13 counts all groups, so that the default one of a second init_process_group is not 0. Index is the rank
	// within the group.
	Group int    `json:"group"`
	Index int    `json:"index"`
	Host  string `json:"host,omitempty"` // the name that the rank believes its host has
	// Addr is invalid where the key exists and its value was not read; Cut says why.
	Addr netip.AddrPort `json:"addr"`
	// Ports are further ports of the address: torch 1.13 has one for each other rank.
	Ports []uint16 `json:"ports,omitempty"`
	// World is the size of the group as this rank believes it, by the length of its blob; 0: not said.
	World int `json:"world,omitempty"`
}

// UniqueID is the NCCL bootstrap root that rank 0 of a group has published.
type UniqueID struct {
	Key  string         `json:"key"`
	Addr netip.AddrPort `json:"addr"`
}

// Rendezvous is c10d's state of one rendezvous id.
type Rendezvous struct {
	ID           string        `json:"id"`
	Round        int           `json:"round"`
	Complete     bool          `json:"complete"`
	Closed       bool          `json:"closed,omitempty"`
	Participants []Participant `json:"participants"`
	Waiting      int           `json:"waiting,omitempty"` // on the wait list
	// Master is the store of the workers, once the rendezvous is complete.
	Master string `json:"master,omitempty"`
	// Unread is why the state could not be decoded.
	Unread string `json:"unread,omitempty"`
}

// Participant is one agent in c10d's state.
type Participant struct {
	Host string    `json:"host"`
	PID  int       `json:"pid"`
	Rank int       `json:"rank"`
	Beat time.Time `json:"beat,omitzero"` // its last heartbeat, UTC by that agent's clock
}

// Barrier is one barrier over the store.
type Barrier struct {
	Key   string `json:"key"`
	Count int    `json:"count"` // arrived
	Done  bool   `json:"done,omitempty"`
}
