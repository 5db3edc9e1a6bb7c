package envoyadmin

import (
	"context"
	"regexp"
	"strconv"
	"strings"
)

// Downstream counts what clients have open at Envoy.
type Downstream struct {
	Connections int
	HTTP        int // connections that speak HTTP
	Requests    int
}

// downstream matches the gauges of listeners and of HTTP connection managers.
var downstream = regexp.MustCompile(`(?m)^(listener|http)\.(.*)\.downstream_(cx|rq)_active: (\d+)$`)

// Downstream counts what clients have open, leaving out the admin API's own connections.
func (a *Admin) Downstream(ctx context.Context) (d Downstream, err error) {
	stats, err := a.Text(ctx, `/stats?usedonly&filter=^(listener|http)\..*\.downstream_(cx|rq)_active$`)
	for _, found := range downstream.FindAllStringSubmatch(stats, -1) {
		n, _ := strconv.Atoi(found[4]) // digits
		switch of := found[1] + " " + found[3]; {
		case found[2] == "admin", strings.HasPrefix(found[2], "admin."):
		case of == "listener cx" && !strings.Contains(found[2], ".worker_"):
			d.Connections += n
		case of == "http cx":
			d.HTTP += n
		case of == "http rq":
			d.Requests += n
		}
	}
	return d, err
}
