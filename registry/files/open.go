package files

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/pgmesh/pgmesh/kinds"
)

// Open reads the settings of a registry from its URL: files:///FOLDER?name=NAME&namespace=NAMESPACE.
func Open(u *url.URL, log *slog.Logger) (*Folder, error) {
	q := u.Query()
	for setting := range q {
		if setting != "name" && setting != "namespace" {
			return nil, fmt.Errorf("a registry of files has no setting %q: it has name and namespace", setting)
		}
	}
	namespace := cmp.Or(q.Get("namespace"), "default")
	switch {
	case u.Host != "" || u.Path == "":
		return nil, errors.New("write the folder with three slashes, as in files:///etc/pgmesh/services")
	case !kinds.ValidNamespace(namespace):
		return nil, fmt.Errorf("%q is no namespace", namespace)
	}
	return New(u.Path, cmp.Or(q.Get("name"), "files"), namespace, log), nil
}
