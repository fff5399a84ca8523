package fabric

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// littleBytes and littlePackets are the most in a second of a limit that no training bears.
	littleBytes, littlePackets = 1 << 20, 1000
	// netdevFamily is NFPROTO_NETDEV; the others are NFT_MSG_GETCHAIN and NFT_MSG_GETRULE of NFNL_SUBSYS_NFTABLES.
	netdevFamily, getChain, getRule = 5, 10<<8 | 4, 10<<8 | 7
)

// policer is a rule that drops packets beyond a rate, whatever they are.
type policer struct {
	rate    float64 // in a second
	packets bool    // of packets, not of bytes
	table   string
	chain   string
	devices []string
}

// Policers returns what says, of a call, that a rule of nft of this node drops packets at its device beyond a rate that
// is very low, whatever they are. It reads tables alone, once. The zero Fault: no such limit,
// or this user may not ask.
func Policers() func(Call) Fault {
	all := nftPolicers()
	return func(c Call) Fault {
		if len(all) == 0 {
			return Fault{}
		}
		h, err := askRoute(netip.AddrPortFrom(c.From.Unmap(), 0), c.To)
		if err != nil {
			return Fault{}
		}
		for _, p := range all {
			if p.low() && slices.Contains(p.devices, h.iface) {
				return p.fault(h.iface)
			}
		}
		return Fault{}
	}
}

// low reports whether no training bears the limit.
func (p policer) low() bool {
	return p.rate > 0 && (p.packets && p.rate <= littlePackets || !p.packets && p.rate <= littleBytes)
}

func (p policer) fault(device string) Fault {
	what := fmt.Sprintf("%.0f kB", p.rate/1000)
	if p.packets {
		what = fmt.Sprintf("%.0f packets", p.rate)
	}
	return Fault{fmt.Sprintf("this node drops packets at %s beyond %s in a second: a policer (nft, table netdev %s, "+
		"chain %s)", device, what, p.table, p.chain),
		fmt.Sprintf("nft list table netdev %s   # raise or remove this limit in chain %s", p.table, p.chain)}
}

// nftPolicers returns those of nft that belong to devices. A rule before it in its chain may have taken packets out, so
// it is the first there.
func nftPolicers() (out []policer) {
	devices := map[[2]string][]string{}
	for _, b := range askNft(getChain) {
		const table, name, hook = 1, 3, 4
		chain := nested(b)
		at := [2]string{name0(chain[table]), name0(chain[name])}
		devices[at] = hookDevices(chain[hook])
	}
	seen := map[[2]string]bool{}
	for _, b := range askNft(getRule) {
		p, ok := readRule(b)
		at := [2]string{p.table, p.chain}
		if first := !seen[at]; ok && first && len(devices[at]) > 0 {
			p.devices = devices[at]
			out = append(out, p)
		}
		seen[at] = true
	}
	return out
}

// askNft returns the answers to a request for all of a kind in the family of devices, without their heads.
func askNft(request int) (out [][]byte) {
	req := nl.NewNetlinkRequest(request, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: netdevFamily, Version: nl.NFNETLINK_V0})
	answers, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return nil
	}
	for _, b := range answers {
		if len(b) >= nl.SizeofNfgenmsg {
			out = append(out, b[nl.SizeofNfgenmsg:])
		}
	}
	return out
}

// hookDevices returns the devices of a chain, from NFTA_CHAIN_HOOK (linux/netfilter/nf_tables.h).
func hookDevices(hook []byte) (out []string) {
	const device, devices = 3, 4
	has := nested(hook)
	if one := name0(has[device]); one != "" {
		out = append(out, one)
	}
	several, _ := nl.ParseRouteAttr(has[devices])
	for _, d := range several {
		out = append(out, name0(d.Value))
	}
	return out
}

// name0 returns a text that ends with a zero byte.
func name0(b []byte) string { return strings.TrimRight(string(b), "\x00") }

// readRule reads a rule of nft (linux/netfilter/nf_tables.h): "limit rate over" a rate, and drop. One that matches some
// packets only does not count.
func readRule(b []byte) (p policer, ok bool) {
	const table, chain, expressions, exprName, exprData = 1, 2, 4, 1, 2
	rule := nested(b)
	p.table, p.chain = name0(rule[table]), name0(rule[chain])
	over, drops := false, false
	all, _ := nl.ParseRouteAttr(rule[expressions])
	for _, e := range all {
		expr := nested(e.Value)
		data := nested(expr[exprData])
		switch name0(expr[exprName]) {
		case "counter":
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
		default:
			return p, false
		}
	}
	return p, over && drops
}
