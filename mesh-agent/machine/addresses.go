package machine

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// addressTowards returns this machine's address on the route to any of others, without sending
// anything. If names cannot be resolved, as at boot before DNS works, it uses the default route.
func addressTowards(addresses []string) (string, error) {
	var failed []error
	for _, address := range append(slices.Clone(addresses), "192.0.2.1:9") { // reserved by RFC 5737
		conn, err := net.Dial("udp", address)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		defer conn.Close()
		host, _, err := net.SplitHostPort(conn.LocalAddr().String())
		return host, err
	}
	return "", failed[0]
}

// otherFamily returns the address of the other IP family on the same interface, if there is one.
func otherFamily(ip string) []string {
	own, err := netip.ParseAddr(ip)
	interfaces, err2 := net.Interfaces()
	if err != nil || err2 != nil {
		return nil
	}
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		var all []netip.Addr
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				all = append(all, p.Addr().Unmap())
			}
		}
		if !slices.Contains(all, own) {
			continue
		}
		for _, a := range all {
			if a.Is4() != own.Is4() && (a.IsGlobalUnicast() || own.IsLoopback() && a.IsLoopback()) {
				return []string{a.String()}
			}
		}
	}
	return nil
}

// resolveTimeout bounds the lookup of discovery's addresses. If it fails, the agent's own
// connections still are not redirected, by their mark.
const resolveTimeout = 2 * time.Second

func resolve(ctx context.Context, server string) (all []netip.AddrPort) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return nil
	}
	addresses, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, a := range addresses {
		all = append(all, netip.AddrPortFrom(a.Unmap().WithZone(""), portOf(server)))
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return all
}

// portOf returns the port of an address, 0 if it has none.
func portOf(address string) uint16 {
	_, port, _ := net.SplitHostPort(address)
	number, _ := strconv.ParseUint(port, 10, 16)
	return uint16(number)
}
