import { memo } from "react";
import { boxHeight, BOX_WIDTH, type Box } from "./scene";

export interface MoreOf {
  inputs: boolean;
  outputs: boolean;
}

interface Props {
  box: Box;
  index: number;
  x: number;
  y: number;
  selected: boolean;
  active: boolean;
  plain: boolean;
  more: MoreOf | undefined;
  onSelect: (index: number) => void;
  onFocus: (index: number) => void;
  onColumn?: ((index: number, column: string) => void) | undefined;
  onMore?: ((index: number, side: "inputs" | "outputs") => void) | undefined;
  onAllColumns?: ((index: number) => void) | undefined;
}

/** What the second line of a box says, for those who hear it. */
const said = (box: Box) => [box.below, box.dropped && "dropped", box.failed && "its newest run failed"].filter(Boolean).join(", ");

const yes = (value: boolean) => (value ? "true" : undefined);

/** One dataset (or step): a button, with buttons beside it for more inputs and outputs and for its columns. */
export const BoxView = memo(function BoxView(props: Props) {
  const { box, index, plain, active } = props;
  const reach = active ? 0 : -1;
  const kind = box.masked ? "masked" : (box.kind ?? "other");
  return (
    <div
      className={`box kind-${KNOWN.has(kind) ? kind : "other"}${plain ? " plain" : ""}${box.root ? " root" : ""}${box.dropped ? " dropped" : ""}${props.selected ? " chosen" : ""}`}
      data-changed={box.change ?? undefined}
      style={{ left: props.x, top: props.y, width: BOX_WIDTH, height: boxHeight(box) }}
    >
      <button
        type="button"
        className="face"
        data-box={index}
        aria-label={box.label}
        aria-pressed={props.selected}
        title={plain ? undefined : `${box.label}\n${said(box)}`}
        tabIndex={reach}
        data-kind={box.masked ? undefined : (box.kind ?? undefined)}
        data-failed={yes(box.failed)}
        data-dropped={yes(box.dropped)}
        data-change={box.change ?? undefined}
        onClick={() => props.onSelect(index)}
        onFocus={() => props.onFocus(index)}
      />
      {!plain && (
        <div className="words" aria-hidden="true">
          <span className="title">{box.title}</span>
          <span className="below">
            {box.below}
            {box.dropped && <span className="tag">dropped</span>}
            {box.failed && <span className="tag failed">failed</span>}
          </span>
        </div>
      )}
      {box.columns.length > 0 && !plain && (
        <ul className="columns" aria-label={`Columns of ${box.label}`}>
          {box.columns.map((column) => (
            <li key={column.name}>
              <button
                type="button"
                className="column"
                aria-label={`${column.name} of ${box.label}`}
                title={column.name}
                data-path={yes(column.path)}
                tabIndex={reach}
                onClick={() => props.onColumn?.(index, column.name)}
              >
                {column.name}
              </button>
            </li>
          ))}
          {box.hidden > 0 && (
            <li>
              <button type="button" className="column rest" tabIndex={reach} onClick={() => props.onAllColumns?.(index)}>
                {box.hidden} more columns
              </button>
            </li>
          )}
        </ul>
      )}
      {props.more?.inputs && (
        <button type="button" className="more left" tabIndex={reach} aria-label={`Inputs of ${box.label}`} title="Show its inputs" onClick={() => props.onMore?.(index, "inputs")}>
          +
        </button>
      )}
      {props.more?.outputs && (
        <button type="button" className="more right" tabIndex={reach} aria-label={`Outputs of ${box.label}`} title="Show its outputs" onClick={() => props.onMore?.(index, "outputs")}>
          +
        </button>
      )}
    </div>
  );
});

const KNOWN = new Set(["table", "view", "path", "topic", "model", "step", "masked"]);
