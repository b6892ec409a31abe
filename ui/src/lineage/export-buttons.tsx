import { useState } from "react";
import type { LineageNode } from "../api";
import { asCsv, asPng, asSvg, download, fileName } from "../graph/exports";
import { themeOf } from "../graph/paint";
import type { Placed } from "../graph/scene";
import type { ChangedEdge } from "./scene-of";

interface Props {
  placed: Placed | null;
  nodes: LineageNode[];
  edges: ChangedEdge[];
  name: string;
}

export function ExportButtons({ placed, nodes, edges, name }: Props) {
  const [error, setError] = useState<string | null>(null);
  const png = () => {
    setError(null);
    if (!placed) return;
    asPng(placed, themeOf(document.documentElement)).then(
      (blob) => download(blob, fileName(name, "png")),
      (failure: Error) => setError(failure.message),
    );
  };
  return (
    <div className="group" role="group" aria-label="Export">
      <button type="button" aria-label="Export PNG" title="The whole graph as a picture" disabled={!placed} onClick={png}>
        PNG
      </button>
      <button
        type="button"
        aria-label="Export SVG"
        title="The whole graph as a drawing"
        disabled={!placed}
        onClick={() => placed && download(asSvg(placed, themeOf(document.documentElement)), fileName(name, "svg"), "image/svg+xml")}
      >
        SVG
      </button>
      <button
        type="button"
        aria-label="Export CSV"
        title="Every dataset and every edge as a table"
        disabled={!placed}
        onClick={() => download(asCsv(nodes, edges), fileName(name, "csv"), "text/csv")}
      >
        CSV
      </button>
      {error && <span role="alert">{error}</span>}
    </div>
  );
}
