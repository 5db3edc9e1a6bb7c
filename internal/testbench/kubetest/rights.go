package kubetest

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
)

// Reads is a rule by which somebody may read all objects of some kinds.
func Reads(group string, plurals ...string) Object {
	return Object{"apiGroups": []string{group}, "resources": plurals, "verbs": []string{"get", "list", "watch"}}
}

const rightsPath = "/apis/rbac.authorization.k8s.io/v1/"

// Grant lets a user do what the rules say, and nothing that rules of the same name said before.
func (c *Cluster) Grant(name, user string, rules ...Object) {
	c.t.Helper()
	c.grant("Cluster", "cluster", name, user, rules)
}

// GrantIn does so in a namespace.
func (c *Cluster) GrantIn(namespace, name, user string, rules ...Object) {
	c.t.Helper()
	c.grant("", "namespaces/"+namespace+"/", name, user, rules)
}

func (c *Cluster) grant(sort, at, name, user string, rules []Object) {
	c.t.Helper()
	c.Apply(rightsPath+at+"roles/"+name, Object{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": sort + "Role", "metadata": Object{"name": name}, "rules": rules,
	})
	c.Apply(rightsPath+at+"rolebindings/"+name, Object{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": sort + "RoleBinding", "metadata": Object{"name": name},
		"roleRef":  Object{"apiGroup": "rbac.authorization.k8s.io", "kind": sort + "Role", "name": name},
		"subjects": []Object{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
	})
}

// Token is one of a ServiceAccount, for the API server, or for those audiences alone.
func (c *Cluster) Token(namespace, account string, audiences ...string) string {
	c.t.Helper()
	answer := c.Post("/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token", Object{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": Object{"expirationSeconds": 3600, "audiences": audiences},
	})
	var request struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer, &request); err != nil || request.Status.Token == "" {
		c.t.Fatalf("there is no token: %v: %s", err, answer)
	}
	return request.Status.Token
}

// StatusAs is the status of the answer to whoever has a token, and asks for a path.
func (c *Cluster) StatusAs(token, path string) int {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "https://"+c.Address+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	anybody := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.Authority.Pool(), MinVersion: tls.VersionTLS12}}
	defer anybody.CloseIdleConnections()
	response, err := anybody.RoundTrip(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}
