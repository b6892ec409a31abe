select o.id, c.city, o.amount from {{ ref("paid_orders") }} o join {{ source("raw", "customers") }} c using (customer)
