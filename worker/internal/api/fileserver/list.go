package fileserver

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

// list answers with a page of files.
func (s *Service) list(c echo.Context, launch *files.Launch) error {
	found := launch.List(c.QueryParam("name"))
	request := pageapi.Request(number(c, "page"), number(c, "limit"), "", nil)
	start := min(request.Offset(), len(found))
	end := min(start+request.Limit, len(found))
	items := []workerapi.LaunchFile{}
	for _, f := range found[start:end] {
		items = append(items, toAPI(f))
	}
	return c.JSON(http.StatusOK, workerapi.LaunchFileListResponse{Success: true, Data: workerapi.LaunchFileList{
		Items: items, Pagination: pageapi.Pagination(page.Page[files.File]{Request: request, Total: len(found)}),
	}})
}

// number returns a query parameter, which the guard has validated.
func number(c echo.Context, name string) *int32 {
	n, err := strconv.ParseInt(c.QueryParam(name), 10, 32)
	if err != nil {
		return nil
	}
	return new(int32(n))
}

func toAPI(f files.File) workerapi.LaunchFile {
	total := f.Total
	if f.State == files.Complete {
		total = f.Size
	}
	return workerapi.LaunchFile{
		Id: f.ID, Name: f.Name, Source: workerapi.LaunchFileSource(f.Source), State: workerapi.LaunchFileState(f.State),
		Size: f.Size, TotalSize: nonZero(total, f.State == files.Complete), Sha256: nonZero(f.SHA256, false), Origin: nonZero(f.Origin, false),
		Path: nonZero(f.Path, false), CreatedAt: f.CreatedAt.UTC(),
	}
}

// nonZero returns nil for a zero value, unless isKnown is set.
func nonZero[T comparable](value T, isKnown bool) *T {
	var zero T
	if value == zero && !isKnown {
		return nil
	}
	return &value
}
