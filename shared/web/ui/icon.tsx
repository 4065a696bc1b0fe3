/** The icons are strokes on a 24 x 24 grid. */
const paths = {
  home: "M4 11l8-7 8 7v9H4zM10 20v-6h4v6",
  activity: "M3 12h4l3 7 4-14 3 7h4",
  profile: "M12 12a4 4 0 100-8 4 4 0 000 8zM4 20c1.5-3.5 4.5-5 8-5s6.5 1.5 8 5",
  server: "M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01",
  plug: "M9 3v5M15 3v5M6 8h12v3a6 6 0 01-12 0zM12 17v4",
  settings:
    "M12 9a3 3 0 100 6 3 3 0 000-6zM12 3v3M12 18v3M3 12h3M18 12h3M5.6 5.6l2.1 2.1M16.3 16.3l2.1 2.1M18.4 5.6l-2.1 2.1M7.7 16.3l-2.1 2.1",
  card: "M3 6h18v12H3zM3 10h18M7 15h3",
  log: "M6 3h9l4 4v14H6zM9 12h7M9 16h7M9 8h3",
  user: "M12 11a3.5 3.5 0 100-7 3.5 3.5 0 000 7zM5 20c1-3 3.6-5 7-5s6 2 7 5",
  users: "M9 11a3 3 0 100-6 3 3 0 000 6zM3 19c.6-3 3-5 6-5s5.400 2 6 5M16 5a3 3 0 010 6M17 14c2.300.5 3.600 2.200 4 5",
  key: "M14.500 9.500a4.500 4.500 0 10-3.200 4.300L13 12.100V10h2l5 5v4h-4v-2h-2v-2l-1.700-1.200M8 9.500h.01",
  building: "M5 21V4h9v17M14 9h5v12M3 21h18M8 8h3M8 12h3M8 16h3",
  search: "M11 18a7 7 0 100-14 7 7 0 000 14zM20 20l-4-4",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  check: "M5 12.500l4.500 4.500L19 7.500",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  down: "M6 9l6 6 6-6",
  up: "M6 15l6-6 6 6",
  left: "M15 6l-6 6 6 6",
  right: "M9 6l6 6-6 6",
  warning: "M12 4l9 16H3zM12 10v4M12 17h.01",
  info: "M12 21a9 9 0 100-18 9 9 0 000 18zM12 11v5M12 8h.01",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
  external: "M14 4h6v6M20 4l-9 9M18 14v6H4V6h6",
  refresh: "M20 11a8 8 0 10-2.300 6M20 5v6h-6",
  play: "M7 5l12 7-12 7z",
  stop: "M7 7h10v10H7z",
  pause: "M8 5v14M16 5v14",
  eye: "M2.500 12S6 5.500 12 5.500 21.500 12 21.500 12 18 18.500 12 18.500 2.500 12 2.500 12zM12 15a3 3 0 100-6 3 3 0 000 6z",
  code: "M8 7l-5 5 5 5M16 7l5 5-5 5",
  menu: "M4 6h16M4 12h16M4 18h16",
  signOut: "M10 4H5v16h5M15 8l4 4-4 4M19 12H9",
  theme: "M12 3a9 9 0 100 18zM12 3a9 9 0 010 18",
  filter: "M3 5h18l-7 8v6l-4 2v-8z",
  clock: "M12 21a9 9 0 100-18 9 9 0 000 18zM12 7v5l3 2",
  mail: "M3 6h18v12H3zM3 7l9 7 9-7",
  help: "M12 21a9 9 0 100-18 9 9 0 000 18zM9.500 9.500a2.500 2.500 0 113.500 2.300c-.700.300-1 .800-1 1.700M12 16.500h.01",
} as const;

export type IconName = keyof typeof paths;

/** A decorative icon; the text beside it, or the label of its button, states the meaning. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon-image" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}
