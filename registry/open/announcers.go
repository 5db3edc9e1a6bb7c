package open

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/registry/announce"
	consul "github.com/pgmesh/pgmesh/registry/consul/announce"
)

// announcers open what announces services in registries, by schemes.
var announcers = map[string]func(*url.URL, reload.Options) (announce.Announcer, error){
	"consul": func(u *url.URL, o reload.Options) (announce.Announcer, error) { return consul.Open(u, o) },
}

// Announcers opens what announces services, each of another name. It reads what their URLs say, and
// asks none of them.
func Announcers(urls []string, o reload.Options) ([]announce.Announcer, error) {
	named := map[string]string{}
	all := make([]announce.Announcer, 0, len(urls))
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return nil, errors.New("it is no URL: write it as consul://127.0.0.1:8500") // the error of Parse would quote passwords
		}
		open, known := announcers[u.Scheme]
		if !known {
			return nil, fmt.Errorf("services cannot be announced in a registry of the scheme %q: write it as consul://127.0.0.1:8500", u.Scheme)
		}
		a, err := open(u, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", shown(u), err)
		}
		if other, taken := named[a.Name()]; taken {
			return nil, fmt.Errorf("%s is called %s, as %s is: give one of them another name by ?name=", shown(u), a.Name(), other)
		}
		named[a.Name()] = shown(u)
		all = append(all, a)
	}
	return all, nil
}
