package rest

import (
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

func isolationSummary(report sandbox.Report) workerapi.IsolationSummary {
	missing := []workerapi.IsolationPieceName{}
	for _, piece := range report.Pieces {
		if !piece.On {
			missing = append(missing, workerapi.IsolationPieceName(piece.Name))
		}
	}
	return workerapi.IsolationSummary{Complete: len(missing) == 0, Missing: missing}
}

func isolationToAPI(report sandbox.Report) []workerapi.IsolationPiece {
	list := []workerapi.IsolationPiece{}
	for _, piece := range report.Pieces {
		list = append(list, workerapi.IsolationPiece{Name: workerapi.IsolationPieceName(piece.Name), Enabled: piece.On, Reason: nonZero(piece.Reason)})
	}
	return list
}
