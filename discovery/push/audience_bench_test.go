package push_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkAudiences has 1,000 services of 5 endpoints with a route and a policy each in 50
// namespaces, and 500 proxies, which are the endpoints of the first hundred. It measures what it
// costs, after a change was pushed, to find out whom resources concern now.
func BenchmarkAudiences(b *testing.B) {
	const services, proxies, namespaces = 1000, 500, 50
	one := func(i, version int) string {
		inTeam := strings.NewReplacer(fmt.Sprint("team-", i%20), fmt.Sprint("team-", i%namespaces))
		return inTeam.Replace(meshService(i, 5, 0) + "---\n" + meshRoute(i, version) + "---\n" +
			resource("DestinationRule", "networking.istio.io/v1", fmt.Sprint("team-", i%20), fmt.Sprint("s", i), fmt.Sprintf("host: s%d.team-%d.svc.cluster.local", i, i%20)) + "---\n")
	}
	parts := func(i, version, part int) string { return strings.Split(one(i, version), "---\n")[part] }
	for name, change := range map[string]func(i int) string{
		"nothing": nil,
		"route":   func(i int) string { return parts(500, i, 1) },
		"service": func(i int) string {
			return strings.ReplaceAll(parts(500, 0, 0), "weight: 1", fmt.Sprint("weight: ", 1+i))
		},
		"new service": func(i int) string { return parts(services+i, 0, 0) },
	} {
		b.Run(name, func(b *testing.B) {
			engine := newBench()
			var config strings.Builder
			for i := range services {
				config.WriteString(one(i, 0))
			}
			engine.apply(b, config.String())
			for i := range proxies {
				s, err := engine.Open(b.Context(), newest(node(fmt.Sprintf("10.%d.%d.%d", i/5/256, i/5%256, i%5+1), fmt.Sprint("team-", i/5%namespaces))), true)
				require.NoError(b, err)
				b.Cleanup(s.Close)
			}
			require.Len(b, engine.Audiences().Changed(), 3*services)
			for i := 1; b.Loop(); i++ {
				if change != nil {
					b.StopTimer()
					engine.apply(b, change(i))
					b.StartTimer()
				}
				engine.Audiences().Changed()
			}
		})
	}
	b.Run("all", func(b *testing.B) {
		var config strings.Builder
		for i := range services {
			config.WriteString(one(i, 0))
		}
		for b.Loop() {
			b.StopTimer()
			engine := newBench()
			engine.apply(b, config.String())
			for i := range namespaces {
				s, err := engine.Open(b.Context(), newest(node(fmt.Sprintf("10.9.0.%d", i+1), fmt.Sprint("team-", i))), true)
				require.NoError(b, err)
				b.Cleanup(s.Close)
			}
			b.StartTimer()
			engine.Audiences().Changed()
		}
	})
}
