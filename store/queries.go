package store

import (
	"embed"

	"github.com/pgmesh/pgmesh/store/query"
)

//go:embed queries
var queryFiles embed.FS

var sql = query.Read[struct {
	SchemaVersion, RevisionAt, GiveUpSoon, SetAuthor string
	Blockers, BlockersOf, EndBlocker, QueueUsage     string
	Differences                                      string
}](queryFiles)
