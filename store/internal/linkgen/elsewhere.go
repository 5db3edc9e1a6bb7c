package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/reference"
)

// elsewhere writes the question whether an HTTP route has come to name something else, which most
// changes of routes do not: they shift weights.
func elsewhere() string {
	k, _ := kinds.Lookup("networking.istio.io", "VirtualService")
	places := reference.Places(k)
	http := places[slices.IndexFunc(places, func(p *reference.Place) bool { return p.Field == "http" })]
	var differs []string
	for _, p := range http.Below {
		differs = append(differs, differsIn(p))
	}
	return "-- names_others tells whether one of two HTTP routes names something else than the other.\n" +
		"CREATE OR REPLACE FUNCTION mesh_internal.names_others(was jsonb, became jsonb) RETURNS boolean\nLANGUAGE sql IMMUTABLE AS $$\n  SELECT " +
		strings.Join(differs, "\n    OR ") + "\n$$;\n"
}

// differsIn asks whether two routes differ in the names of a field. Usually the whole field is the
// same, which Postgres can tell without looking for names in it.
func differsIn(p *reference.Place) string {
	whole := fmt.Sprintf("was -> '%s' IS DISTINCT FROM became -> '%[1]s'", p.Field)
	if p.Named != nil {
		return whole
	}
	var parts []string
	always := true
	for _, b := range p.Below {
		if b.Named == nil {
			return whole
		}
		parts = append(parts, fmt.Sprintf("$.%s[*].%s", p.Field, b.Field))
		always = always && b.Named.Form == reference.DestinationForm
	}
	for i, part := range parts {
		if always { // each item has it, so its position tells whose it is
			parts[i] = fmt.Sprintf("jsonb_path_query_array(was, '%s') <> jsonb_path_query_array(became, '%[1]s')", part)
		} else {
			parts[i] = fmt.Sprintf("was @? '%s' OR became @? '%[1]s'", part)
		}
	}
	if always {
		parts = append([]string{fmt.Sprintf("jsonb_path_query_array(was, '$.%s.size()') <> jsonb_path_query_array(became, '$.%[1]s.size()')", p.Field)}, parts...)
	}
	return whole + " AND (" + strings.Join(parts, " OR ") + ")"
}
