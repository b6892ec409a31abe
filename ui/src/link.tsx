import type { AnchorHTMLAttributes, MouseEvent } from "react";
import { isMasked, type AnyRef } from "./api";
import { go, lineageOf } from "./route";

/** A real link that stays within the page. */
export function Link({ href, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string }) {
  const follow = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0) return;
    event.preventDefault();
    go(href);
  };
  return <a href={href} onClick={follow} {...rest} />;
}

export function DatasetLink({ dataset }: { dataset: AnyRef }) {
  if (isMasked(dataset as AnyRef)) return <span className="masked">masked</span>;
  const ref = dataset as Exclude<AnyRef, { masked: true }>;
  return (
    <Link href={lineageOf(ref)} title={ref.namespace} className="name">
      {ref.name}
    </Link>
  );
}
