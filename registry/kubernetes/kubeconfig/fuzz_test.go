package kubeconfig

import (
	"testing"

	"go.yaml.in/yaml/v3"
)

// Whatever a kubeconfig is, what it chooses has a server, and runs nothing.
func FuzzKubeconfig(f *testing.F) {
	f.Add("current-context: a\ncontexts: [{name: a, context: {cluster: b, user: c}}]\nclusters: [{name: b, cluster: {server: 'https://d'}}]\nusers: [{name: c, user: {exec: {command: e}}}]")
	f.Add("clusters: [{name: b, cluster: {certificate-authority-data: aGVsbG8=}}]")
	f.Add("&a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		var config file
		if yaml.Unmarshal([]byte(text), &config) != nil {
			return
		}
		c, u, err := config.chosen("")
		if err != nil || refuse(c, u) != nil {
			return
		}
		if server, err := serverOf(c.Server); err == nil && server.Host == "" {
			t.Fatal("there is no host")
		}
		if !u.Exec.IsZero() {
			t.Fatal("it would run a program")
		}
	})
}
