package store_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
)

const mutations = 200

// seeds are the times that the dice are thrown anew; PGMESH_SEEDS asks for more.
func seeds(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("PGMESH_SEEDS"), "1"))
	require.NoError(t, err)
	return n
}

// Whatever is wrong with a document, both validators say the same of it, and the quick check passes
// none that they refuse.
func TestValidatorsAgreeOnRandomDocuments(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for range seeds(t) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		db.requireAgreementOnMutations(newMutator(t, seed), seed)
	}
}

func (s session) requireAgreementOnMutations(m *mutator, seed uint64) {
	t := s.T
	for i := range mutations {
		e := m.sources[m.IntN(len(m.sources))]
		e.name = fmt.Sprintf("seed %d, document %d", seed, i)
		spec := e.tree(t)
		for range m.IntN(3) + 1 {
			spec = m.change(spec)
		}
		text, err := json.Marshal(spec)
		require.NoError(t, err)
		before := e
		e.spec = text
		wrong := fmt.Sprint(violationsOf(kinds.Validate(e.kind, spec, &e.meta)))
		if strings.Contains(wrong, "is not a regular expression") { // the database tells that only as far as it can
			continue
		}
		if found := s.requireAgreement(e); len(found) > 0 && len(kinds.Validate(e.kind, before.tree(t), &e.meta)) == 0 && s.passesAfter(before.spec, e) {
			t.Errorf("%s: the quick check passes it after %s, and wrong is:\n%s", e, before.spec, strings.Join(found, "\n"))
		}
	}
}

// mutator changes documents at random.
type mutator struct {
	*rand.Rand
	sources []exam
	parts   []any // of all the documents
}

func newMutator(t *testing.T, seed uint64) *mutator {
	t.Helper()
	m := &mutator{Rand: rand.New(rand.NewPCG(seed, 0))}
	good, bad := testdata(t, "valid"), testdata(t, "invalid")
	for _, file := range slices.Sorted(maps.Keys(good)) {
		for _, d := range decodeAll[document](t, file, good[file]) {
			m.sources = append(m.sources, d.exam(t, file))
		}
	}
	for _, file := range slices.Sorted(maps.Keys(bad)) {
		for _, d := range decodeAll[struct{ Object document }](t, file, bad[file]) {
			m.sources = append(m.sources, d.Object.exam(t, file))
		}
	}
	for _, e := range m.sources {
		m.collect(e.tree(t))
	}
	return m
}

func (m *mutator) collect(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			m.collect(v[name])
		}
	case []any:
		for _, item := range v {
			m.collect(item)
		}
	}
	m.parts = append(m.parts, v)
}

// change changes one thing in a value, or puts another in its place. The value given is not to be
// used any more.
func (m *mutator) change(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 && m.IntN(12) > 0 {
			return m.changeObject(v)
		}
	case []any:
		if len(v) > 0 {
			return m.changeList(v)
		}
		return []any{m.any()}
	case string:
		if m.IntN(3) > 0 {
			return m.misspell(v)
		}
	}
	return m.any()
}

func (m *mutator) changeObject(v map[string]any) any {
	v = maps.Clone(v)
	names := slices.Sorted(maps.Keys(v))
	name := names[m.IntN(len(names))]
	switch m.IntN(10) {
	case 0:
		delete(v, name)
	case 1:
		v[m.misspell(name)] = v[name]
	default:
		v[name] = m.change(v[name])
	}
	return v
}

func (m *mutator) changeList(v []any) any {
	i := m.IntN(len(v))
	switch m.IntN(8) {
	case 0:
		return slices.Delete(slices.Clone(v), i, i+1)
	case 1, 2:
		return append(slices.Clone(v), v[i])
	}
	v = slices.Clone(v)
	v[i] = m.change(v[i])
	return v
}

func (m *mutator) any() any {
	switch m.IntN(6) {
	case 0:
		return ""
	case 1:
		return json.Number([]string{"0", "1", "-1", "80", "65536"}[m.IntN(5)])
	}
	return m.parts[m.IntN(len(m.parts))]
}

// misspell leaves out a character, or puts one in that means something somewhere.
func (m *mutator) misspell(s string) string {
	const extra = "*/. é:-_%{}0\n\"\\([@,"
	runes := []rune(s)
	i := m.IntN(len(runes) + 1)
	if i < len(runes) && m.IntN(2) == 0 {
		return string(slices.Delete(runes, i, i+1))
	}
	return strings.Join([]string{string(runes[:i]), string([]rune(extra)[m.IntN(len([]rune(extra)))]), string(runes[i:])}, "")
}
