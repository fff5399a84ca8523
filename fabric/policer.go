package fabric

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// littleBytes and littlePackets are the most in a second of a limit that no training bears.
	littleBytes, littlePackets = 1 << 20, 1000
	// netdevFamily is NFPROTO_NETDEV, and getRule NFT_MSG_GETRULE of NFNL_SUBSYS_NFTABLES.
	netdevFamily, getRule = 5, 10<<8 | 7
)

// policer is a rule that drops packets beyond a rate.
type policer struct {
	rate    float64 // in a second
	packets bool    // of packets, not of bytes
	table   string
	chain   string
}

// Policed returns that a rule of nft of this node drops packets at a device beyond a rate that is very low. It reads
// tables alone. The zero Fault: there is none, or this user may not ask.
func Policed() Fault {
	for _, p := range nftPolicers() {
		if p.packets && p.rate > littlePackets || !p.packets && p.rate > littleBytes || p.rate == 0 {
			continue
		}
		what := fmt.Sprintf("%.0f kB", p.rate/1000)
		if p.packets {
			what = fmt.Sprintf("%.0f packets", p.rate)
		}
		return Fault{fmt.Sprintf("this node drops packets beyond %s in a second: a policer (nft, table netdev %s, chain %s)",
			what, p.table, p.chain),
			fmt.Sprintf("nft list table netdev %s\nif it is not meant: nft delete table netdev %[1]s", p.table)}
	}
	return Fault{}
}

// nftPolicers returns those of nft that belong to devices.
func nftPolicers() (out []policer) {
	req := nl.NewNetlinkRequest(getRule, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: netdevFamily, Version: nl.NFNETLINK_V0})
	answers, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return nil
	}
	for _, b := range answers {
		if len(b) >= nl.SizeofNfgenmsg {
			if p, ok := readRule(b[nl.SizeofNfgenmsg:]); ok {
				out = append(out, p)
			}
		}
	}
	return out
}

// readRule reads a rule of nft (linux/netfilter/nf_tables.h): "limit rate over" a rate, and drop. One of a protocol
// without data, as of ICMP, is none.
func readRule(b []byte) (p policer, ok bool) {
	const table, chain, expressions, exprName, exprData = 1, 2, 4, 1, 2
	rule := nested(b)
	over, drops := false, false
	all, _ := nl.ParseRouteAttr(rule[expressions])
	for _, e := range all {
		expr := nested(e.Value)
		data := nested(expr[exprData])
		switch strings.TrimRight(string(expr[exprName]), "\x00") {
		case "limit":
			const rate, unit, kind, flags, inverse = 1, 2, 4, 5, 1
			if len(data[rate]) != 8 || len(data[unit]) != 8 || len(data[kind]) != 4 || len(data[flags]) != 4 {
				return p, false
			}
			p.rate = float64(binary.BigEndian.Uint64(data[rate])) / float64(binary.BigEndian.Uint64(data[unit]))
			p.packets = binary.BigEndian.Uint32(data[kind]) == 0
			over = binary.BigEndian.Uint32(data[flags])&inverse != 0
		case "immediate":
			const value, verdict, code, drop = 2, 2, 1, 0
			v := nested(nested(data[value])[verdict])[code]
			drops = len(v) == 4 && binary.BigEndian.Uint32(v) == drop
		case "cmp":
			const value, bytes = 3, 1
			v := nested(data[value])[bytes]
			if len(v) == 1 && slices.Contains([]byte{unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6, unix.IPPROTO_UDP}, v[0]) {
				return p, false
			}
		}
	}
	text := func(attr uint16) string { return strings.TrimRight(string(rule[attr]), "\x00") }
	p.table, p.chain = text(table), text(chain)
	return p, over && drops
}
