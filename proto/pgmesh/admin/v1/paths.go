package adminv1

import _ "embed" // the paths

// Paths is http.yaml: the paths of the admin API over HTTP.
//
//go:embed http.yaml
var Paths string
