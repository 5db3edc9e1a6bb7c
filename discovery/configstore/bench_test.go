package configstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// BenchmarkOneChangeAmong10000 measures one change in a large mesh.
func BenchmarkOneChangeAmong10000(b *testing.B) {
	k, _ := kinds.Lookup("networking.istio.io", "VirtualService")
	store := configstore.New()
	all := kinds.Batch{}
	for i := range 10000 {
		r := &kinds.Resource{Kind: k, Namespace: "default", Name: fmt.Sprint("vs-", i), CreateTime: time.Unix(int64(i), 0)}
		all.Changes = append(all.Changes, kinds.Change{Key: r.Key(), Resource: r})
	}
	store.Apply(all)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		store.Apply(kinds.Batch{Revision: int64(i), Changes: all.Changes[i%10000 : i%10000+1]})
	}
}
